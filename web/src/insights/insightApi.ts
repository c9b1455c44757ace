import { queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queryClient";
import { userName } from "@/api/users";
import { writeVersion } from "@/api/versions";

export type Insight = Schemas["Insight"];
export type InsightFields = Schemas["InsightFields"];

export function insightName(insight: Pick<Insight, "name" | "derived_name">): string {
  return insight.name || insight.derived_name || "Untitled insight";
}

export function insightQuery(projectId: string, shortId: string) {
  return queryOptions({
    queryKey: ["insight", projectId, shortId],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/insights/{id}", {
          params: { path: { project_id: projectId, id: shortId } },
          signal,
        }),
      ),
  });
}

export async function createInsight(projectId: string, fields: InsightFields): Promise<Insight> {
  const insight = await call(
    api.POST("/api/projects/{project_id}/insights", {
      params: { path: { project_id: projectId } },
      body: { saved: true, ...fields },
    }),
  );
  remember(projectId, insight);
  return insight;
}

export async function updateInsight(
  projectId: string,
  shortId: string,
  fields: InsightFields,
): Promise<Insight> {
  const insight = await call(
    api.PATCH("/api/projects/{project_id}/insights/{id}", {
      params: { path: { project_id: projectId, id: shortId } },
      body: fields,
    }),
  );
  remember(projectId, insight);
  return insight;
}

/// Changes an insight unless somebody else did since it was loaded; then the person is asked.
export function saveInsight(
  projectId: string,
  insight: Pick<Insight, "short_id" | "version">,
  fields: InsightFields,
  onTheirs: (theirs: Insight) => void,
): Promise<Insight> {
  const { short_id: shortId, version } = insight;
  return writeVersion<Insight>({
    noun: "insight",
    version,
    send: (edited) => updateInsight(projectId, shortId, { ...fields, version: edited }),
    load: () => queryClient.fetchQuery({ ...insightQuery(projectId, shortId), staleTime: 0 }),
    lastChange: async ({ last_modified_by: author, last_modified_at: at }) => ({
      author: author ? userName(author) : null,
      at,
    }),
    onTheirs,
  });
}

function remember(projectId: string, insight: Insight): void {
  queryClient.setQueryData(insightQuery(projectId, insight.short_id).queryKey, insight);
  void queryClient.invalidateQueries({ queryKey: ["insights", projectId] });
  void queryClient.invalidateQueries({ queryKey: ["dashboard", projectId] });
}

/// Tells the server that the insight was looked at, for "recent".
export async function markViewed(projectId: string, id: number): Promise<void> {
  await api.POST("/api/projects/{project_id}/insights/viewed", {
    params: { path: { project_id: projectId } },
    body: { insight_ids: [id] },
  });
}

export function dashboardsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["dashboards", projectId, { limit: 500 }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/dashboards", {
          params: { path: { project_id: projectId }, query: { limit: 500 } },
          signal,
        }),
      ),
  });
}
