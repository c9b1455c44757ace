import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useLiveRefetch } from "@/api/live";
import { eventLabel } from "@/filters/operators";
import type { Filters } from "@/filters/types";
import { ask } from "@/insights/queries";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Card, EmptyState, ErrorPanel, RelativeTime, SkeletonRows } from "@/ui";
import { type Column, Table } from "@/ui/Table";
import { type Step, stepEvents, stepFilters } from "./steps";

const ROWS = 20;
const REST_MS = 300;
/// The pulse does not tell what arrived while its stream was being opened.
const REFETCH_MS = 10_000;
/// Further back an answer takes longer, and says nothing of how an app works today.
const AFTER = "-30d";

interface Matched {
  id: string;
  event: string;
  distinctId: string;
  url: string;
  at: string;
}

export interface MatchingEventsProps {
  steps: readonly Step[];
  /// The saved action, while the steps are as saved.
  actionId: number | null;
}

/// The newest events that the steps match, also before they are saved. They follow what arrives.
export function MatchingEvents({ steps, actionId }: MatchingEventsProps) {
  const { projectId } = useProject();
  const rested = useDebounced(JSON.stringify(steps), REST_MS);
  const draft = JSON.parse(rested) as Step[];
  const filters = actionId === null ? stepFilters(draft) : null;
  const answerable = actionId !== null || filters !== null;
  const query = useQuery({
    queryKey: ["matching_events", projectId, actionId ?? filters],
    enabled: answerable && draft.length > 0,
    staleTime: 0,
    refetchInterval: REFETCH_MS,
    queryFn: async ({ signal }) => {
      const { results } = await ask(
        projectId,
        {
          kind: "EventsQuery",
          select: ["uuid", "event", "distinct_id", "properties.$current_url", "timestamp"],
          orderBy: ["timestamp DESC"],
          after: AFTER,
          limit: ROWS,
          ...(actionId === null
            ? { properties: (filters ?? undefined) as Filters | undefined }
            : { actionId }),
        },
        { signal, refresh: "force_blocking" },
      );
      return results.map(
        ([id, event, distinctId, url, at]): Matched => ({
          id: String(id),
          event: String(event),
          distinctId: String(distinctId),
          url: typeof url === "string" ? url : "",
          at: String(at),
        }),
      );
    },
  });
  useLiveRefetch({
    projectId,
    events: stepEvents(draft),
    enabled: answerable && draft.length > 0,
    refetch: query.refetch,
  });
  const columns: Column<Matched>[] = [
    {
      id: "event",
      header: "Event",
      cell: ({ id, event }) => (
        <Link
          to="/project/$projectId/activity/explore"
          params={{ projectId }}
          search={{ id }}
          className="inline-flex min-h-6 max-w-48 items-center truncate font-medium hover:underline"
        >
          {eventLabel(event)}
        </Link>
      ),
    },
    {
      id: "at",
      header: "Time",
      className: "whitespace-nowrap text-muted",
      cell: ({ at }) => <RelativeTime at={at} />,
    },
    {
      id: "person",
      header: "Distinct id",
      cell: ({ distinctId }) => <span className="block max-w-56 truncate">{distinctId}</span>,
    },
    {
      id: "url",
      header: "URL",
      cell: ({ url }) => <span className="block max-w-96 truncate text-muted">{url || "–"}</span>,
    },
  ];
  const rows = query.data ?? [];
  return (
    <Card
      flush
      title="Matching events"
      description={`The newest of the last 30 days${actionId === null ? ", with the steps as edited" : ""}. New ones appear by themselves.`}
    >
      {!answerable ? (
        <EmptyState title="Save the action to see its events">
          A step has a CSS selector, or several conditions on one element. Events that match it are
          shown once it is saved.
        </EmptyState>
      ) : query.isPending ? (
        <SkeletonRows label="Looking for matching events" />
      ) : query.isError ? (
        <ErrorPanel
          error={query.error}
          title="Could not look for matching events"
          onRetry={() => query.refetch()}
        />
      ) : rows.length === 0 ? (
        <EmptyState title="No event matches so far">
          Do in your app what the action should match; the event appears here.
        </EmptyState>
      ) : (
        <Table
          label="Matching events"
          rows={rows}
          columns={columns}
          rowKey={({ id }) => id}
          stale={query.isPlaceholderData}
        />
      )}
    </Card>
  );
}
