import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Pause, Play, Radio, Trash2 } from "lucide-react";
import { Suspense, useCallback, useMemo, useState } from "react";
import { lazy } from "@/api/lazy";
import { useProject } from "@/shell/useProject";
import { Button, buttonClass, Card, EmptyState, SearchInput, Skeleton, SkeletonRows } from "@/ui";
import { count, exact } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { ActivityFrame } from "./ActivityFrame";
import { eventText, valueText } from "./columns";
import type { Event } from "./eventList";
import type { LiveSearch } from "./search";
import { TAIL_ROWS_MAX, tailMatches } from "./tailBuffer";
import { type TailState, useTail } from "./useTail";

const EventDrawer = lazy(() => import("./EventDrawer").then((m) => ({ default: m.EventDrawer })));
const EventChoice = lazy(() => import("./choices").then((m) => ({ default: m.EventChoice })));
const PersonChoice = lazy(() => import("./choices").then((m) => ({ default: m.PersonChoice })));
const RefusedEvents = lazy(() =>
  import("./RefusedEvents").then((m) => ({ default: m.RefusedEvents })),
);

const route = getRouteApi("/project/$projectId/activity/live");

export function LivePage() {
  const { tab } = route.useSearch();
  return tab === "refused" ? (
    <ActivityFrame title="Refused events">
      <Suspense fallback={<SkeletonRows />}>
        <RefusedEvents />
      </Suspense>
    </ActivityFrame>
  ) : (
    <LiveTail />
  );
}

function clock(timestamp: string, timeZone: string): string {
  return new Intl.DateTimeFormat(undefined, { timeStyle: "medium", timeZone }).format(
    new Date(timestamp),
  );
}

function LiveTail() {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/activity/live" });
  const { event, distinct_id, q } = route.useSearch();
  const change = useCallback(
    (part: Partial<LiveSearch>) =>
      navigate({ search: (before) => ({ ...before, ...part }), replace: true }),
    [navigate],
  );
  const [paused, setPaused] = useState(false);
  const { tail, state, perSecond, clear, takeOver } = useTail({
    projectId,
    event,
    distinct_id,
    paused,
  });
  const [open, setOpen] = useState<Event | null>(null);
  const rows = useMemo(
    () => (q ? tail.rows.filter((row) => tailMatches(row, q)) : tail.rows),
    [tail.rows, q],
  );
  const columns = useMemo(
    (): Column<Event>[] => [
      {
        id: "event",
        header: "Event",
        cell: (row) => (
          <button
            type="button"
            onClick={() => setOpen(row)}
            className="block h-6 max-w-40 truncate text-left font-medium hover:underline sm:max-w-64"
          >
            {eventText(row.event)}
          </button>
        ),
      },
      {
        id: "time",
        header: "Time",
        className: "whitespace-nowrap text-muted",
        cell: (row) => clock(row.timestamp, project.timezone),
      },
      {
        id: "person",
        header: "Distinct id",
        cell: (row) => <span className="block max-w-56 truncate">{row.distinct_id}</span>,
      },
      {
        id: "url",
        header: "URL or screen",
        cell: (row) => (
          <span className="block max-w-96 truncate text-muted">
            {valueText(row.properties.$current_url ?? row.properties.$screen_name)}
          </span>
        ),
      },
      {
        id: "lib",
        header: "Library",
        className: "whitespace-nowrap text-muted",
        cell: (row) => valueText(row.properties.$lib),
      },
    ],
    [project.timezone],
  );
  const at = open ? rows.findIndex(({ id }) => id === open.id) : -1;
  const step = (to: number) => {
    const target = rows[to];
    return target && (() => setOpen(target));
  };
  return (
    <ActivityFrame
      title="Live events"
      actions={
        <>
          <Button icon={<Trash2 aria-hidden />} onClick={clear} disabled={tail.rows.length === 0}>
            Clear
          </Button>
          <Button
            variant={paused ? "primary" : "secondary"}
            icon={paused ? <Play aria-hidden /> : <Pause aria-hidden />}
            onClick={() => setPaused(!paused)}
          >
            {paused ? "Resume" : "Pause"}
          </Button>
        </>
      }
    >
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <Suspense fallback={<Skeleton className="h-8 w-52" />}>
          <EventChoice
            projectId={projectId}
            value={{ event }}
            withActions={false}
            onChange={(next) => change({ event: next.event })}
          />
          <PersonChoice
            value={{ distinct_id }}
            withPersons={false}
            onChange={(next) => change({ distinct_id: next.distinct_id })}
          />
        </Suspense>
        <SearchInput
          label="Search in these events"
          className="w-full sm:w-64"
          value={q ?? ""}
          onChange={(input) => change({ q: input.currentTarget.value || undefined })}
        />
        <TailStatus state={paused ? "paused" : state} perSecond={perSecond} missed={tail.missed} />
      </div>
      <Card flush className="overflow-hidden">
        {state === "taken" && !paused ? (
          <EmptyState
            icon={<Radio aria-hidden />}
            title="Another tab follows other events"
            action={
              <Button variant="primary" onClick={takeOver}>
                Follow here
              </Button>
            }
          >
            A browser follows one live stream at a time, so that the other tabs stay quick.
          </EmptyState>
        ) : tail.rows.length === 0 ? (
          <EmptyState
            icon={<Radio aria-hidden />}
            title={paused ? "Paused" : "Waiting for events"}
            action={
              <Link
                to="/project/$projectId/onboarding"
                params={{ projectId }}
                className={buttonClass()}
              >
                Connect an app
              </Link>
            }
          >
            {event || distinct_id
              ? "Events that match the filter appear here the moment they arrive."
              : "Events appear here the moment they arrive. Those from before are under Explore."}
          </EmptyState>
        ) : rows.length === 0 ? (
          <EmptyState title="No event matches">
            None of the {count(tail.rows.length, "event")} received so far contains “{q}”.
          </EmptyState>
        ) : (
          <Table
            label="Live events"
            className="max-h-[max(20rem,calc(100dvh-15rem))]"
            rows={rows}
            columns={columns}
            rowKey={(row) => row.id}
            selectedKey={open?.id}
            onOpen={setOpen}
          />
        )}
      </Card>
      {tail.rows.length > 0 && (
        <p className="mt-2 flex flex-wrap gap-x-4 text-xs text-muted">
          <span>
            {q ? `${exact(rows.length)} of ${exact(tail.rows.length)} match. ` : ""}
            {count(tail.received, "event")} received
            {tail.received > TAIL_ROWS_MAX && `, the last ${exact(TAIL_ROWS_MAX)} shown`}.
          </span>
          <span className="ml-auto">Times are in {project.timezone}.</span>
        </p>
      )}
      <Suspense>
        <EventDrawer
          id={open?.id ?? null}
          event={open ?? undefined}
          onClose={() => setOpen(null)}
          onStep={at < 0 ? undefined : { before: step(at - 1), after: step(at + 1) }}
        />
      </Suspense>
    </ActivityFrame>
  );
}

const STATES: Record<TailState | "paused", { label: string; dot: string }> = {
  connecting: { label: "Connecting", dot: "bg-warn" },
  open: { label: "Live", dot: "bg-accent animate-pulse" },
  closed: { label: "Connecting again", dot: "bg-warn" },
  taken: { label: "In another tab", dot: "bg-line-strong" },
  paused: { label: "Paused", dot: "bg-line-strong" },
};

interface TailStatusProps {
  state: TailState | "paused";
  perSecond: number;
  missed: number;
}

function TailStatus({ state, perSecond, missed }: TailStatusProps) {
  const { label, dot } = STATES[state];
  return (
    <div className="flex items-center gap-3 sm:ml-auto">
      <span role="status" className="flex items-center gap-1.5">
        <span aria-hidden="true" className={`size-2 rounded-full ${dot}`} />
        {label}
      </span>
      <span className="text-muted tabular-nums">
        {perSecond < 10
          ? (Math.round(perSecond * 10) / 10).toLocaleString()
          : exact(Math.round(perSecond))}{" "}
        per second
      </span>
      {missed > 0 && (
        <span
          className="text-warn"
          title="They were stored, but came faster than this stream carries. Explore shows them."
        >
          {exact(missed)} missed
        </span>
      )}
    </div>
  );
}
