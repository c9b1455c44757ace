import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProject } from "@/shell/useProject";
import { cx, Page, PageHeader } from "@/ui";
import { useCurrentLink } from "@/ui/SectionFrame";

const LINK =
  "flex h-8 shrink-0 items-center rounded-md px-2.5 font-medium whitespace-nowrap text-muted -outline-offset-2 hover:bg-hover hover:text-text aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent-text";

/// What a page belongs to is said by a line before it.
const LINKS = [
  { to: "/project/$projectId/settings/project", label: "Project", begins: false },
  { to: "/project/$projectId/settings/access", label: "Access", begins: false },
  { to: "/project/$projectId/settings/organization", label: "Organization", begins: true },
  { to: "/project/$projectId/settings/members", label: "Members", begins: false },
  { to: "/project/$projectId/settings/roles", label: "Roles", begins: false },
  { to: "/project/$projectId/settings/account", label: "Your account", begins: true },
  { to: "/project/$projectId/settings/keys", label: "Personal API keys", begins: false },
] as const;

export interface SettingsFrameProps {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/// The frame of all settings, with the list of their pages.
export function SettingsFrame({ title, description, actions, children }: SettingsFrameProps) {
  const { projectId } = useProject();
  const nav = useCurrentLink(title);
  return (
    <Page>
      <div className="flex flex-col gap-x-8 gap-y-3 lg:flex-row">
        <nav
          ref={nav}
          aria-label="Settings"
          className="scroll-thin flex shrink-0 gap-1 overflow-x-auto overflow-y-hidden lg:w-44 lg:flex-col lg:overflow-visible lg:pt-1"
        >
          {LINKS.map(({ to, label, begins }) => (
            <Link
              key={to}
              to={to}
              params={{ projectId }}
              className={cx(
                LINK,
                begins &&
                  "lg:relative lg:mt-4 lg:before:absolute lg:before:inset-x-2.5 lg:before:-top-2.5 lg:before:border-t",
              )}
            >
              {label}
            </Link>
          ))}
        </nav>
        <div className="min-w-0 flex-1">
          <PageHeader title={title} description={description} actions={actions} />
          <div className="flex flex-col gap-4">{children}</div>
        </div>
      </div>
    </Page>
  );
}

/// Says why a page cannot be changed.
export function ReadOnlyNote({ reason }: { reason: string }) {
  return reason ? <p className="rounded-md bg-sunken px-3 py-2 text-muted">{reason}</p> : null;
}
