import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, call } from "@/api/client";
import { EmptyState, ErrorPanel, PathLink, SkeletonRows } from "@/ui";
import { count } from "@/ui/format";

const LINK = "inline-flex min-h-6 items-center font-medium wrap-anywhere hover:underline";

export interface CohortUsersProps {
  projectId: string;
  id: number;
}

/// What depends on a cohort.
export function CohortUsers({ projectId, id }: CohortUsersProps) {
  const query = useQuery({
    queryKey: ["cohort_used_by", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/cohorts/{id}/used_by", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
  if (query.isPending) return <SkeletonRows rows={4} label="Loading where it is used" />;
  if (query.isError) {
    return (
      <ErrorPanel
        title="Could not find where it is used"
        error={query.error}
        onRetry={() => query.refetch()}
      />
    );
  }
  const { feature_flags: flags, insights, cohorts, actions, hidden } = query.data;
  const total = flags.length + insights.length + cohorts.length + actions.length + hidden;
  if (total === 0) {
    return (
      <EmptyState title="Nothing uses it">
        No flag, insight, action or other cohort names this cohort: it can be deleted without
        changing anything else.
      </EmptyState>
    );
  }
  const section = (title: string, items: ReactNode[]) =>
    items.length > 0 && (
      <section aria-label={title} className="border-b px-4 py-3 last:border-b-0">
        <h2 className="mb-1 text-xs font-semibold text-muted">{title}</h2>
        <ul>{items}</ul>
      </section>
    );
  return (
    <>
      {section(
        "Feature flags",
        flags.map((flag) => (
          <li key={flag.id}>
            <PathLink href={`/project/${projectId}/feature_flags/${flag.id}`} className={LINK}>
              {flag.key}
            </PathLink>
          </li>
        )),
      )}
      {section(
        "Insights",
        insights.map((insight) => (
          <li key={insight.id}>
            <Link
              to="/project/$projectId/insights/$shortId"
              params={{ projectId, shortId: insight.short_id }}
              className={LINK}
            >
              {insight.name || "Untitled insight"}
            </Link>
          </li>
        )),
      )}
      {section(
        "Cohorts",
        cohorts.map((cohort) => (
          <li key={cohort.id}>
            <Link
              to="/project/$projectId/cohorts/$id"
              params={{ projectId, id: String(cohort.id) }}
              className={LINK}
            >
              {cohort.name || `Cohort ${cohort.id}`}
            </Link>
          </li>
        )),
      )}
      {section(
        "Actions",
        actions.map((action) => (
          <li key={action.id}>
            <PathLink
              href={`/project/${projectId}/data-management/actions/${action.id}`}
              className={LINK}
            >
              {action.name || `Action ${action.id}`}
            </PathLink>
          </li>
        )),
      )}
      {hidden > 0 && (
        <p className="px-4 py-3 text-muted">
          And {count(hidden, "object")} that you have no access to.
        </p>
      )}
    </>
  );
}
