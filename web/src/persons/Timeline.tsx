import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Activity, LoaderCircle } from "lucide-react";
import { Suspense, useMemo, useRef, useState } from "react";
import { lazy } from "@/api/lazy";
import { useLiveRefetch } from "@/api/live";
import { eventText } from "@/events/columns";
import { type EventFilter, useEventList } from "@/events/eventList";
import { useProject } from "@/shell/useProject";
import { Button, buttonClass, EmptyState, ErrorPanel, SkeletonRows } from "@/ui";
import { count } from "@/ui/format";
import { eventHint, timelineItems } from "./timeline";

const EventDrawer = lazy(() =>
  import("@/events/EventDrawer").then((m) => ({ default: m.EventDrawer })),
);

const ROW_PX = 36;

export interface TimelineProps {
  /// The events of one person or group.
  filter: EventFilter;
  empty: string;
}

/// Events by day, newest first, as they arrive.
export function Timeline({ filter, empty }: TimelineProps) {
  const { projectId, project } = useProject();
  const { timezone: timeZone } = project;
  const filterKey = JSON.stringify(filter);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the filter.
  const stable = useMemo(() => filter, [filterKey]);
  const { query, rows, refresh, waiting } = useEventList(projectId, stable);
  const [open, setOpen] = useState<string | null>(null);
  const scroller = useRef<HTMLElement>(null);
  useLiveRefetch({
    projectId,
    events: null,
    enabled: query.isSuccess,
    refetch: () => refresh((scroller.current?.scrollTop ?? 0) === 0),
  });
  const items = useMemo(
    () => timelineItems(rows, timeZone, !query.hasNextPage),
    [rows, timeZone, query.hasNextPage],
  );
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (at) => items[at]?.key ?? at,
    overscan: 15,
    onChange: (instance) => {
      const last = instance.getVirtualItems().at(-1);
      if (last && last.index >= items.length - 30 && query.hasNextPage && !query.isFetching) {
        void query.fetchNextPage();
      }
    },
  });
  const { dayFormat, timeFormat } = useMemo(
    () => ({
      dayFormat: new Intl.DateTimeFormat(undefined, { timeZone, dateStyle: "full" }),
      timeFormat: new Intl.DateTimeFormat(undefined, { timeZone, timeStyle: "medium" }),
    }),
    [timeZone],
  );

  if (query.isPending) return <SkeletonRows rows={10} label="Loading events" />;
  if (query.isError && rows.length === 0) {
    return (
      <ErrorPanel
        title="Could not load the events"
        error={query.error}
        onRetry={() => query.refetch()}
      />
    );
  }
  if (rows.length === 0) {
    return (
      <EmptyState icon={<Activity aria-hidden />} title="No events">
        {empty}
      </EmptyState>
    );
  }
  const shown = virtualizer.getVirtualItems();
  const before = shown[0]?.start ?? 0;
  const after = virtualizer.getTotalSize() - (shown.at(-1)?.end ?? 0);
  const at = open ? rows.findIndex(({ id }) => id === open) : -1;
  const step = (to: number) => {
    const target = rows[to];
    return target && (() => setOpen(target.id));
  };
  return (
    <div className="relative">
      {waiting && (
        <div className="absolute inset-x-0 top-2 z-10 flex justify-center">
          <Button
            size="sm"
            variant="primary"
            className="shadow-popup"
            onClick={() => {
              waiting.show();
              scroller.current?.scrollTo({ top: 0 });
            }}
          >
            {waiting.more ? `${waiting.added}+ new events` : count(waiting.added, "new event")}
          </Button>
        </div>
      )}
      <section
        ref={scroller}
        aria-label="Timeline"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin max-h-[max(20rem,calc(100dvh-20rem))] overflow-auto rounded-lg -outline-offset-2"
      >
        <ul>
          {before > 0 && <li aria-hidden style={{ height: before }} />}
          {shown.map(({ index, key }) => {
            const item = items[index];
            if (!item) return null;
            return item.kind === "day" ? (
              <li
                key={key}
                className="flex h-9 items-center gap-2 border-b bg-sunken px-4 font-medium"
              >
                {dayFormat.format(item.at)}
                <span className="text-xs font-normal text-muted">
                  {item.more ? `${item.events}+ events` : count(item.events, "event")}
                </span>
              </li>
            ) : (
              <li key={key} className="h-9 border-b last:border-b-0">
                <button
                  type="button"
                  onClick={() => setOpen(item.event.id)}
                  className="flex size-full items-center gap-3 px-4 text-left -outline-offset-2 hover:bg-hover"
                >
                  <time
                    dateTime={item.event.timestamp}
                    className="w-20 shrink-0 text-xs text-muted tabular-nums"
                  >
                    {timeFormat.format(new Date(item.event.timestamp))}
                  </time>
                  <span className="max-w-1/2 shrink-0 truncate font-medium">
                    {eventText(item.event.event)}
                  </span>
                  <span className="min-w-0 truncate text-muted">{eventHint(item.event)}</span>
                </button>
              </li>
            );
          })}
          {after > 0 && <li aria-hidden style={{ height: after }} />}
        </ul>
      </section>
      <div className="flex min-h-9 flex-wrap items-center gap-2 border-t px-4 py-2 text-xs text-muted">
        {query.isFetchingNextPage && <LoaderCircle className="size-3.5 animate-spin" aria-hidden />}
        <p role="status">
          {query.hasNextPage
            ? `${count(rows.length, "event")} loaded; more load as you scroll.`
            : `${count(rows.length, "event")}.`}{" "}
          Times are in {timeZone}.
        </p>
        <Link
          to="/project/$projectId/activity/explore"
          params={{ projectId }}
          search={filter}
          className={`${buttonClass("ghost", "sm")} ml-auto`}
        >
          Open in the explorer
        </Link>
      </div>
      <Suspense>
        {open !== null && (
          <EventDrawer
            id={open}
            event={rows[at]}
            onClose={() => setOpen(null)}
            onStep={at < 0 ? undefined : { before: step(at - 1), after: step(at + 1) }}
          />
        )}
      </Suspense>
    </div>
  );
}
