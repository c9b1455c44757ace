import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { meQuery, projectQuery } from "@/api/me";
import { toast } from "@/ui";

export type ProjectChange = Schemas["ProjectFields"] & Schemas["ProjectSettingsChange"];

/// Changes settings of the project; what shows them is up to date at once.
export function useProjectChange(projectId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: ProjectChange) =>
      call(
        api.PATCH("/api/projects/{project_id}", {
          params: { path: { project_id: projectId } },
          body,
        }),
      ),
    onSuccess: (project) => {
      client.setQueryData(projectQuery(projectId).queryKey, project);
      void client.invalidateQueries({ queryKey: meQuery.queryKey });
      toast.success("Saved");
    },
  });
}
