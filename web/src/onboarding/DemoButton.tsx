import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { FlaskConical } from "lucide-react";
import { api, call } from "@/api/client";
import { projectsQuery } from "@/api/me";
import { useProject } from "@/shell/useProject";
import { Button, toast } from "@/ui";

/// `effective_membership_level` of an administrator, who may create projects.
const LEVEL_ADMIN = 8;

/// Opens the demo project of the organization, made on the first use.
export function DemoButton() {
  const { projectId, project } = useProject();
  const client = useQueryClient();
  const navigate = useNavigate();
  const demo = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/demo", {
          params: { path: { project_id: projectId } },
        }),
      ),
    onSuccess: async (made) => {
      await client.invalidateQueries({ queryKey: projectsQuery.queryKey });
      await navigate({
        to: "/project/$projectId/home",
        params: { projectId: String(made.id) },
      });
    },
    onError: (error) => toast.error(error, "Could not make the demo project"),
  });
  return (
    <Button
      icon={<FlaskConical aria-hidden />}
      busy={demo.isPending}
      disabledReason={
        project.effective_membership_level < LEVEL_ADMIN
          ? "Only administrators can add a project. Ask one of them."
          : undefined
      }
      onClick={() => demo.mutate()}
    >
      {demo.isPending ? "Filling the demo project…" : "Open a demo project"}
    </Button>
  );
}
