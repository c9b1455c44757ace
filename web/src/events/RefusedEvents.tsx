import { useInfiniteQuery } from "@tanstack/react-query";
import { CircleCheck } from "lucide-react";
import { useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Card,
  CopyButton,
  Drawer,
  EmptyState,
  ErrorPanel,
  RelativeTime,
  SkeletonRows,
} from "@/ui";
import { count, dateTime } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { eventText } from "./columns";
import { JsonView } from "./JsonView";
import { detail, reasonOf, type Warning } from "./refusals";

const PAGE_ROWS = 100;
const REFETCH_MS = 5_000;

/// What the server refused or changed, why, and what was sent.
export function RefusedEvents() {
  const { projectId, project } = useProject();
  const [open, setOpen] = useState<Warning | null>(null);
  const query = useInfiniteQuery({
    queryKey: ["ingestion_warnings", projectId],
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      call(
        api.GET("/api/projects/{project_id}/ingestion_warnings", {
          params: {
            path: { project_id: projectId },
            query: { limit: PAGE_ROWS, offset: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: (page, pages) => (page.next ? pages.length * PAGE_ROWS : null),
    // Warnings have no pulse. Only the first page is asked for again.
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? REFETCH_MS : false),
  });
  const rows = useMemo(
    () => query.data?.pages.flatMap(({ results }) => results) ?? [],
    [query.data],
  );
  const columns = useMemo(
    (): Column<Warning>[] => [
      {
        id: "reason",
        header: "Reason",
        cell: (row) => (
          <button
            type="button"
            onClick={() => setOpen(row)}
            className="block max-w-44 min-w-36 truncate py-1 text-left font-medium hover:underline max-sm:whitespace-normal sm:max-w-none"
          >
            {reasonOf(row.type).title}
          </button>
        ),
      },
      {
        id: "outcome",
        header: "Outcome",
        cell: (row) => <Outcome warning={row} />,
      },
      { id: "event", header: "Event", cell: (row) => eventCell(detail(row, "event")) },
      {
        id: "person",
        header: "Distinct id",
        cell: (row) => (
          <span className="block max-w-56 truncate">{detail(row, "distinctId") || "–"}</span>
        ),
      },
      { id: "time", header: "Time", cell: (row) => <RelativeTime at={row.timestamp} /> },
    ],
    [],
  );
  return (
    <>
      <p className="mb-3 max-w-prose text-muted">
        Events that were not stored, or not as they were sent. One warning an hour is kept for each
        reason and event name, for 30 days.
      </p>
      <Card flush className="overflow-hidden">
        {query.isPending ? (
          <SkeletonRows label="Loading refused events" />
        ) : query.isError && rows.length === 0 ? (
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        ) : rows.length === 0 ? (
          <EmptyState icon={<CircleCheck aria-hidden />} title="Nothing was refused">
            If an app sends an event that cannot be stored, the reason and a sample appear here.
          </EmptyState>
        ) : (
          <Table
            label="Refused events"
            className="max-h-[max(20rem,calc(100dvh-16rem))]"
            rows={rows}
            columns={columns}
            rowKey={(row) => row.id}
            selectedKey={open?.id}
            onOpen={setOpen}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
            }}
          />
        )}
      </Card>
      {rows.length > 0 && (
        <p className="mt-2 text-xs text-muted">
          {count(query.data?.pages[0]?.count ?? rows.length, "warning")}.
        </p>
      )}
      <Drawer
        open={open !== null}
        onOpenChange={(next) => !next && setOpen(null)}
        title={open ? reasonOf(open.type).title : "Refused event"}
        footer={
          open && (
            <CopyButton withLabel label="Copy JSON" text={() => JSON.stringify(open, null, 2)} />
          )
        }
      >
        {open && (
          <div className="flex flex-col gap-3">
            <p>{reasonOf(open.type).remedy}</p>
            <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
              <dt className="text-muted">Outcome</dt>
              <dd>
                <Outcome warning={open} />
              </dd>
              <dt className="text-muted">Time</dt>
              <dd>
                {dateTime(new Date(open.timestamp), project.timezone)}{" "}
                <span className="text-muted">{project.timezone}</span>
              </dd>
              <dt className="text-muted">Code</dt>
              <dd>
                <code className="font-mono text-xs wrap-anywhere">{open.type}</code>
              </dd>
            </dl>
            <JsonView label="Sample of what was sent" value={open.details} />
          </div>
        )}
      </Drawer>
    </>
  );
}

function eventCell(event: string | null) {
  return event === null ? (
    <span className="text-faint">–</span>
  ) : (
    <span className="block max-w-48 truncate">{eventText(event)}</span>
  );
}

function Outcome({ warning }: { warning: Warning }) {
  return reasonOf(warning.type).refused ? (
    <Badge tone="danger">Not stored</Badge>
  ) : (
    <Badge tone="warn">Stored with changes</Badge>
  );
}
