import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChevronDown, ChevronRight, History } from "lucide-react";
import { useState } from "react";
import { api, call } from "@/api/client";
import { membersQuery } from "@/api/members";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Card,
  Chip,
  cx,
  EmptyState,
  ErrorPanel,
  Page,
  PageHeader,
  RelativeTime,
  Select,
  SkeletonRows,
} from "@/ui";
import { ChangeList } from "./ChangeList";
import { describeEntry, type Entry, SCOPES, shownChanges } from "./sentences";

const route = getRouteApi("/project/$projectId/activity-log");

function cursorOf(link: string | null | undefined): string | undefined {
  return link
    ? (new URL(link, "http://server").searchParams.get("cursor") ?? undefined)
    : undefined;
}

/// The day of an entry in the project's zone, as a heading.
function dayOf(at: string, timeZone: string): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone }).format(new Date(at));
}

function byDay(entries: readonly Entry[], timeZone: string): [string, Entry[]][] {
  const days: [string, Entry[]][] = [];
  for (const entry of entries) {
    const day = dayOf(entry.created_at, timeZone);
    const last = days.at(-1);
    if (last?.[0] === day) last[1].push(entry);
    else days.push([day, [entry]]);
  }
  return days;
}

export function ActivityLogPage() {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/activity-log" });
  const { scope, user, item, cursor, entry: open } = route.useSearch();
  const query = useQuery({
    queryKey: ["activity_log", projectId, { scope, user, item, cursor }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/activity_log", {
          params: {
            path: { project_id: projectId },
            query: { scope, user, item_id: item, cursor },
          },
          signal,
        }),
      ),
  });
  const members = useQuery(membersQuery(project.organization));
  const set = (patch: { scope?: string; user?: string; item?: string; cursor?: string }) =>
    navigate({
      search: (before) => ({ ...before, cursor: undefined, entry: undefined, ...patch }),
      replace: !("cursor" in patch),
    });
  const entries = query.data?.results ?? [];
  const filtered = Boolean(scope || user || item);
  const [older, newer] = [cursorOf(query.data?.next), cursorOf(query.data?.previous)];
  return (
    <Page>
      <PageHeader
        title="Activity log"
        description="Who changed what in this project and its organization."
      />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <Select
          label="About"
          value={scope ?? ""}
          onChange={(next) => void set({ scope: next || undefined, item: undefined })}
          options={[
            { value: "", label: "Everything" },
            ...Object.entries(SCOPES)
              .map(([value, { label }]) => ({ value, label }))
              .sort((a, b) => a.label.localeCompare(b.label)),
          ]}
        />
        <Select
          label="By"
          value={user ?? ""}
          onChange={(next) => void set({ user: next || undefined })}
          options={[
            { value: "", label: "Anyone" },
            ...(members.data?.results ?? []).map((member) => ({
              value: member.user.uuid,
              label: userName(member.user),
            })),
          ]}
        />
        {item && (
          <Chip removeLabel="Show all objects" onRemove={() => void set({ item: undefined })}>
            {`Only ${SCOPES[scope ?? ""]?.noun ?? "object"} ${
              entries.find(({ detail }) => detail.name)?.detail.name ?? item
            }`}
          </Chip>
        )}
      </div>
      <Card flush>
        {query.isPending ? (
          <SkeletonRows label="Loading the activity log" />
        ) : query.isError ? (
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        ) : entries.length === 0 ? (
          <EmptyState
            icon={<History aria-hidden />}
            title={filtered ? "No entry matches" : "Nothing was changed yet"}
            action={
              filtered && (
                <Button onClick={() => void navigate({ search: {}, replace: true })}>
                  Show everything
                </Button>
              )
            }
          >
            {filtered
              ? "Nobody changed what these filters name, or you have no access to it."
              : "Changes of dashboards, flags, members and settings appear here, with what was before."}
          </EmptyState>
        ) : (
          <div
            aria-busy={query.isPlaceholderData || undefined}
            className={cx(query.isPlaceholderData && "opacity-60")}
          >
            {byDay(entries, project.timezone).map(([day, list]) => (
              <section key={day} aria-label={day}>
                <h2 className="border-b bg-sunken px-4 py-1.5 text-xs font-semibold text-muted">
                  {day}
                </h2>
                <ul>
                  {list.map((entry) => (
                    <EntryRow key={entry.id} entry={entry} linked={entry.id === open} />
                  ))}
                </ul>
              </section>
            ))}
          </div>
        )}
      </Card>
      {(older || newer) && (
        <nav aria-label="Pages" className="mt-4 flex justify-center gap-3">
          <Button disabled={!newer} onClick={() => void set({ cursor: newer })}>
            Newer
          </Button>
          <Button disabled={!older} onClick={() => void set({ cursor: older })}>
            Older
          </Button>
        </nav>
      )}
      <p className="mt-2 text-xs text-muted">Days are in {project.timezone}.</p>
    </Page>
  );
}

function EntryRow({ entry, linked }: { entry: Entry; linked: boolean }) {
  const { projectId } = useProject();
  const [open, setOpen] = useState(linked);
  const { actor, verb, noun, name, path } = describeEntry(entry);
  const changes = shownChanges(entry);
  const expandable = changes.length > 0;
  return (
    <li
      // An entry that a link names is brought into view.
      ref={(element) => {
        if (linked && element) element.scrollIntoView({ block: "center" });
      }}
      className={cx(
        "flex gap-2 border-b px-2 py-2 last:border-b-0 sm:px-4",
        linked && "bg-accent-soft",
      )}
    >
      {expandable ? (
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Changes of ${noun} ${name || entry.item_id}`}
          onClick={() => setOpen(!open)}
          className="grid size-6 shrink-0 place-items-center rounded text-muted hover:bg-hover hover:text-text [&_svg]:size-4"
        >
          {open ? <ChevronDown aria-hidden /> : <ChevronRight aria-hidden />}
        </button>
      ) : (
        <span className="size-6 shrink-0" />
      )}
      <div className="min-w-0 flex-1">
        <div className="flex flex-wrap items-baseline justify-between gap-x-3 pt-0.5">
          <p className="min-w-0 wrap-anywhere">
            <strong className="font-semibold">{actor}</strong> {verb} {noun}{" "}
            {path ? (
              <Link
                to={`/project/${projectId}/${path}` as string}
                className="font-medium text-accent-text underline underline-offset-2"
              >
                {name || entry.item_id}
              </Link>
            ) : (
              <span className="font-medium">{name}</span>
            )}
          </p>
          <Link
            to="/project/$projectId/activity-log"
            params={{ projectId }}
            search={{ scope: entry.scope, item: entry.item_id, entry: entry.id }}
            className="min-h-6 text-xs text-muted hover:underline"
          >
            <RelativeTime at={entry.created_at} />
            <span className="sr-only">: history of this {noun}</span>
          </Link>
        </div>
        {open && expandable && (
          <div className="mt-2 mb-1">
            <ChangeList changes={changes} />
          </div>
        )}
      </div>
    </li>
  );
}
