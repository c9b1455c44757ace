import {
  Activity,
  ChartNoAxesCombined,
  Database,
  Flag,
  History,
  House,
  LayoutDashboard,
  type LucideIcon,
  Settings,
  Shapes,
  SquareTerminal,
  Users,
} from "lucide-react";

export interface Destination {
  label: string;
  /// A route below `/project/$projectId`.
  to:
    | "/project/$projectId/home"
    | "/project/$projectId/insights"
    | "/project/$projectId/dashboard"
    | "/project/$projectId/activity/explore"
    | "/project/$projectId/data-management/events"
    | "/project/$projectId/activity-log"
    | "/project/$projectId/settings/project"
    | "/project/$projectId/persons"
    | "/project/$projectId/cohorts"
    | "/project/$projectId/sql"
    | "/project/$projectId/feature_flags"
    | "/project/$projectId/onboarding";
  icon: LucideIcon;
  /// The letter after `g`.
  letter: string;
  /// The start of every path that belongs to it, below the project.
  prefix: string;
}

/// What the sidebar, the bottom bar, the palette and the keys lead to.
export const DESTINATIONS: readonly Destination[] = [
  { label: "Home", to: "/project/$projectId/home", icon: House, letter: "h", prefix: "home" },
  {
    label: "Dashboards",
    to: "/project/$projectId/dashboard",
    icon: LayoutDashboard,
    letter: "d",
    prefix: "dashboard",
  },
  {
    label: "Insights",
    to: "/project/$projectId/insights",
    icon: ChartNoAxesCombined,
    letter: "i",
    prefix: "insights",
  },
  {
    label: "Events",
    to: "/project/$projectId/activity/explore",
    icon: Activity,
    letter: "e",
    prefix: "activity",
  },
  {
    label: "Flags",
    to: "/project/$projectId/feature_flags",
    icon: Flag,
    letter: "f",
    prefix: "feature_flags",
  },
  {
    label: "Persons",
    to: "/project/$projectId/persons",
    icon: Users,
    letter: "p",
    prefix: "persons",
  },
  {
    label: "Cohorts",
    to: "/project/$projectId/cohorts",
    icon: Shapes,
    letter: "c",
    prefix: "cohorts",
  },
  { label: "SQL", to: "/project/$projectId/sql", icon: SquareTerminal, letter: "q", prefix: "sql" },
  {
    label: "Definitions",
    to: "/project/$projectId/data-management/events",
    icon: Database,
    letter: "m",
    prefix: "data-management",
  },
  {
    label: "Activity log",
    to: "/project/$projectId/activity-log",
    icon: History,
    letter: "l",
    prefix: "activity-log",
  },
  {
    label: "Settings",
    to: "/project/$projectId/settings/project",
    icon: Settings,
    letter: "s",
    prefix: "settings",
  },
];

/// So many fit the bottom bar of a phone beside "More", which has the others.
export const BAR_DESTINATIONS = 4;
