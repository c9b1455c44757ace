import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Activity, ArrowDown, ArrowUp, Download, LoaderCircle } from "lucide-react";
import { Suspense, useCallback, useMemo, useRef, useState } from "react";
import { lazy } from "@/api/lazy";
import { useLiveRefetch } from "@/api/live";
import { completeFilters } from "@/filters/operators";
import { asGroup, compactFilters, type PropertyFilter } from "@/filters/types";
import { useProject } from "@/shell/useProject";
import {
  Button,
  buttonClass,
  Card,
  EmptyState,
  ErrorPanel,
  Menu,
  Skeleton,
  SkeletonRows,
  toast,
} from "@/ui";
import { count, exact } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { ActivityFrame } from "./ActivityFrame";
import { cellOf, columnLabel, columnPart, DEFAULT_COLUMNS, eventText } from "./columns";
import { CSV_ROWS_MAX, downloadEvents } from "./csv";
import { type Event, ROWS_MAX, useEventList } from "./eventList";
import { usePersonValues } from "./personValues";
import type { ExploreSearch } from "./search";

// Pickers and the drawer come after the rows: they are a third of the page's bytes.
const EventDrawer = lazy(() => import("./EventDrawer").then((m) => ({ default: m.EventDrawer })));
const ColumnPicker = lazy(() =>
  import("./ColumnPicker").then((m) => ({ default: m.ColumnPicker })),
);
const ExploreFilters = lazy(() =>
  import("./ExploreFilters").then((m) => ({ default: m.ExploreFilters })),
);

const route = getRouteApi("/project/$projectId/activity/explore");

export function ExplorePage() {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/activity/explore" });
  const { columns: chosen, id, ...filter } = route.useSearch();
  const sent = { ...filter, properties: completeFilters(filter.properties) };
  const change = useCallback(
    (part: Partial<ExploreSearch>) =>
      navigate({ search: (before) => ({ ...before, ...part }), replace: true }),
    [navigate],
  );

  const filterKey = JSON.stringify(sent);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the filter.
  const stableFilter = useMemo(() => sent, [filterKey]);
  const { query, rows, refresh, waiting } = useEventList(projectId, stableFilter);
  const columns = useMemo(
    () => (chosen ?? DEFAULT_COLUMNS).filter((column) => columnPart(column)),
    [chosen],
  );
  const personProperties = useMemo(
    () =>
      columns.flatMap((column) => {
        const part = columnPart(column);
        return part?.kind === "person" ? [part.name] : [];
      }),
    [columns],
  );
  const people = usePersonValues(projectId, stableFilter, rows, personProperties);

  const scrolled = useRef(false);
  const oldestFirst = filter.order === "oldest";
  useLiveRefetch({
    projectId,
    events: filter.event ? [filter.event] : null,
    enabled: query.isSuccess && !filter.before && !oldestFirst,
    refetch: () => refresh(!scrolled.current),
  });

  const [exporting, setExporting] = useState(false);
  const save = async (shownColumns: readonly string[] | null) => {
    setExporting(true);
    try {
      await downloadEvents(projectId, stableFilter, shownColumns);
    } catch (error) {
      toast.error(error, "Could not download the events");
    } finally {
      setExporting(false);
    }
  };

  const tableColumns = useMemo(
    () =>
      columns.map((column): Column<Event> => {
        if (column === "timestamp") {
          return {
            id: column,
            sorted: oldestFirst ? "ascending" : "descending",
            header: (
              <button
                type="button"
                onClick={() => change({ order: oldestFirst ? undefined : "oldest" })}
                aria-label={oldestFirst ? "Time, newest first" : "Time, oldest first"}
                className="-mx-1.5 inline-flex h-6 items-center gap-1 rounded px-1.5 hover:bg-hover hover:text-text"
              >
                Time
                {oldestFirst ? (
                  <ArrowUp className="size-3.5" aria-hidden />
                ) : (
                  <ArrowDown className="size-3.5" aria-hidden />
                )}
              </button>
            ),
            cell: (event) => cellOf(column, event, people),
          };
        }
        return {
          id: column,
          header: columnLabel(column),
          className: "whitespace-nowrap",
          cell: (event) =>
            column === "event" ? (
              <button
                type="button"
                onClick={() => change({ id: event.id })}
                className="block h-6 max-w-40 truncate text-left font-medium hover:underline sm:max-w-64"
              >
                {eventText(event.event)}
              </button>
            ) : (
              cellOf(column, event, people)
            ),
        };
      }),
    [columns, people, oldestFirst, change],
  );

  const at = id ? rows.findIndex((event) => event.id === id) : -1;
  const step = (to: number) => {
    const target = rows[to];
    return target && (() => void change({ id: target.id }));
  };
  const addFilter = (added: PropertyFilter) => {
    const group = asGroup(filter.properties);
    const values = group.type === "AND" ? group.values : [group];
    const properties = compactFilters({ type: "AND", values: [...values, added] });
    void change({ properties, id: undefined });
  };

  const filtered = Object.values(filter).some((value) => value !== undefined);
  const full = rows.length >= ROWS_MAX;
  return (
    <ActivityFrame
      title="Events"
      actions={
        <>
          <Suspense fallback={<Skeleton className="h-8 w-28" />}>
            <ColumnPicker
              projectId={projectId}
              columns={columns}
              onChange={(next) => change({ columns: next })}
            />
          </Suspense>
          <Menu
            align="end"
            trigger={
              <Button busy={exporting} icon={<Download aria-hidden />}>
                CSV
              </Button>
            }
            items={[
              {
                heading: `The first ${exact(CSV_ROWS_MAX)} events at most`,
                items: [
                  { label: "Columns of this table", onSelect: () => void save(columns) },
                  { label: "All properties", onSelect: () => void save(null) },
                ],
              },
            ]}
          />
        </>
      }
    >
      <Suspense fallback={<Skeleton className="mb-3 h-8 w-96 max-w-full" />}>
        <ExploreFilters
          projectId={projectId}
          timeZone={project.timezone}
          filter={filter}
          onChange={change}
          onClear={
            filtered ? () => navigate({ search: { columns: chosen }, replace: true }) : undefined
          }
        />
      </Suspense>
      <Card flush className="relative overflow-hidden">
        {query.isPending ? (
          <SkeletonRows rows={12} label="Loading events" />
        ) : query.isError && rows.length === 0 ? (
          <ErrorPanel
            title="Could not load the events"
            error={query.error}
            onRetry={() => query.refetch()}
          />
        ) : rows.length === 0 ? (
          filtered ? (
            <EmptyState icon={<Activity aria-hidden />} title="No event matches">
              Take a filter away, or look at a longer time.
            </EmptyState>
          ) : (
            <EmptyState
              icon={<Activity aria-hidden />}
              title="No events yet"
              action={
                <Link
                  to="/project/$projectId/onboarding"
                  params={{ projectId }}
                  className={buttonClass("primary")}
                >
                  Connect an app
                </Link>
              }
            >
              What people do in your app appears here a moment after the app sends it, such as
              “signed up” or “order placed”.
            </EmptyState>
          )
        ) : (
          <>
            {waiting && (
              <div className="absolute inset-x-0 top-10 z-30 flex justify-center">
                <Button
                  size="sm"
                  variant="primary"
                  className="shadow-popup"
                  onClick={() => {
                    waiting.show();
                    document.querySelector('[aria-label="Events"][tabindex]')?.scrollTo({ top: 0 });
                  }}
                >
                  {waiting.more
                    ? `${waiting.added}+ new events`
                    : count(waiting.added, "new event")}
                </Button>
              </div>
            )}
            <div
              onScrollCapture={(event) => {
                scrolled.current = (event.target as HTMLElement).scrollTop > 0;
              }}
            >
              <Table
                label="Events"
                className="max-h-[max(20rem,calc(100dvh-15rem))]"
                rows={rows}
                columns={tableColumns}
                rowKey={(event) => event.id}
                stale={query.isPlaceholderData}
                selectedKey={id}
                onOpen={(event) => void change({ id: event.id })}
                onEnd={() => {
                  if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
                }}
              />
            </div>
          </>
        )}
      </Card>
      {rows.length > 0 && (
        <p role="status" className="mt-2 flex min-h-5 items-center gap-2 text-xs text-muted">
          {query.isFetchingNextPage && (
            <LoaderCircle className="size-3.5 animate-spin" aria-hidden />
          )}
          {full
            ? `The first ${exact(rows.length)} events. Narrow the filters, or download the CSV.`
            : query.hasNextPage
              ? `${count(rows.length, "event")} loaded; more load as you scroll.`
              : `${count(rows.length, "event")}.`}
          <span className="ml-auto">Times are in {project.timezone}.</span>
        </p>
      )}
      <Suspense>
        <EventDrawer
          id={id ?? null}
          event={rows[at]}
          onClose={() => void change({ id: undefined })}
          onFilter={addFilter}
          onColumn={(column) => void change({ columns: [...columns, column] })}
          columns={columns}
          onStep={at < 0 ? undefined : { before: step(at - 1), after: step(at + 1) }}
        />
      </Suspense>
    </ActivityFrame>
  );
}
