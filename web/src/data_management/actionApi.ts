import { queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { toast } from "@/ui";

export type Action = Schemas["ActionWithAccess"];
export type ActionFields = Schemas["ActionFields"];

export function actionQuery(projectId: string, id: number) {
  return queryOptions({
    queryKey: ["action", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/actions/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
}

/// Makes an action, or changes the one of the id.
export function saveAction(
  projectId: string,
  id: number | null,
  body: ActionFields,
): Promise<Action> {
  return id === null
    ? call(
        api.POST("/api/projects/{project_id}/actions", {
          params: { path: { project_id: projectId } },
          body,
        }),
      )
    : call(
        api.PATCH("/api/projects/{project_id}/actions/{id}", {
          params: { path: { project_id: projectId, id } },
          body,
        }),
      );
}

/// Deletes an action, with ten seconds to take it back.
export function useDeleteAction(projectId: string) {
  const client = useQueryClient();
  const set = async (id: number, deleted: boolean) => {
    try {
      await saveAction(projectId, id, { deleted });
      await client.invalidateQueries({ queryKey: ["actions", projectId] });
      return true;
    } catch (error) {
      toast.error(error, deleted ? "Could not delete it" : "Could not bring it back");
      return false;
    }
  };
  return async ({ id, name }: Action) => {
    if (!(await set(id, true))) return false;
    toast.success(`Deleted “${name}”`, { undo: () => void set(id, false) });
    return true;
  };
}

/// The builder's draft of a trend of an action.
export function trendOfAction({ id, name }: Pick<Action, "id" | "name">): string {
  const query = {
    kind: "TrendsQuery",
    series: [{ kind: "ActionsNode", id, name, math: "total" }],
    dateRange: { date_from: "-7d" },
    interval: "day",
  };
  return `q=${encodeURIComponent(JSON.stringify(query))}`;
}
