import type { UseQueryResult } from "@tanstack/react-query";
import { History } from "lucide-react";
import type { Schemas } from "@/api/client";
import { userName } from "@/api/users";
import { EmptyState, ErrorPanel, RelativeTime, SkeletonRows } from "@/ui";
import { activitySentence } from "./activitySentence";

export interface ActivityListProps {
  query: UseQueryResult<Schemas["ActivityListing"]>;
  /// What was changed, as in "person".
  noun: string;
}

/// Who changed an object, and when. Changes by events are not in the log.
export function ActivityList({ query, noun }: ActivityListProps) {
  if (query.isPending) return <SkeletonRows rows={4} label="Loading the activity" />;
  if (query.isError) {
    return (
      <ErrorPanel
        title="Could not load the activity"
        error={query.error}
        onRetry={() => query.refetch()}
      />
    );
  }
  if (query.data.results.length === 0) {
    return (
      <EmptyState icon={<History aria-hidden />} title="No changes yet">
        Changes that people make through the interface or the API appear here; what apps send does
        not.
      </EmptyState>
    );
  }
  return (
    <ul>
      {query.data.results.map((entry) => (
        <li
          key={entry.id}
          className="flex min-h-10 flex-wrap items-center gap-x-2 border-b px-4 py-1.5 last:border-b-0"
        >
          <span className="min-w-0 wrap-anywhere">
            <strong className="font-medium">
              {entry.user ? userName(entry.user) : "Hedgerow"}
            </strong>{" "}
            {activitySentence(entry, noun)}
          </span>
          <span className="ml-auto text-xs text-muted">
            <RelativeTime at={entry.created_at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
