import { createRoute, redirect } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";

/// A name that looks like a number arrives as one.
const text = v.fallback(
  v.optional(v.pipe(v.union([v.string(), v.number()]), v.transform(String), v.nonEmpty())),
  undefined,
);
const on = v.fallback(v.optional(v.literal(true)), undefined);

const EventsSearch = v.object({
  search: text,
  kind: v.fallback(v.optional(v.picklist(["event_custom", "event_posthog"])), undefined),
  verified: on,
  hidden: on,
  tag: text,
  /// The definition whose drawer is open.
  id: text,
});

const PropertiesSearch = v.object({
  search: text,
  type: v.fallback(v.optional(v.picklist(["person", "group"])), undefined),
  group: v.fallback(v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))), undefined),
  hidden: on,
  id: text,
});

const eventsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/events",
  validateSearch: EventsSearch,
  component: lazyRouteComponent(() => import("./EventDefinitionsPage"), "EventDefinitionsPage"),
});

const propertiesRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/properties",
  validateSearch: PropertiesSearch,
  component: lazyRouteComponent(
    () => import("./PropertyDefinitionsPage"),
    "PropertyDefinitionsPage",
  ),
});

const actionsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/actions",
  validateSearch: v.object({ search: text, tag: text }),
  component: lazyRouteComponent(() => import("./ActionsPage"), "ActionsPage"),
});

const newActionRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/actions/new",
  /// Begins with a step of this event.
  validateSearch: v.object({ event: text }),
  component: lazyRouteComponent(() => import("./ActionPage"), "NewActionPage"),
});

const actionRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/actions/$actionId",
  component: lazyRouteComponent(() => import("./ActionPage"), "ActionPage"),
});

const annotationsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/annotations",
  validateSearch: v.object({ search: text, scope: text }),
  component: lazyRouteComponent(() => import("@/annotations/AnnotationsPage"), "AnnotationsPage"),
});

const variablesRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management/variables",
  validateSearch: v.object({ search: text }),
  component: lazyRouteComponent(() => import("@/insight_variables/VariablesPage"), "VariablesPage"),
});

const dataManagementRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "data-management",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/project/$projectId/data-management/events", params, replace: true });
  },
});

export const dataManagementRoutes = [
  eventsRoute,
  propertiesRoute,
  actionsRoute,
  newActionRoute,
  actionRoute,
  annotationsRoute,
  variablesRoute,
  dataManagementRoute,
];
