import { useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { toast } from "@/ui";

export type Annotation = Schemas["Annotation"];
export type AnnotationFields = Schemas["AnnotationFields"];

const SCOPE_LABELS: Record<Annotation["scope"], string> = {
  project: "All charts of this project",
  organization: "All projects of the organization",
  dashboard: "One dashboard",
  dashboard_item: "One insight",
};

export const SCOPES = (["project", "organization", "dashboard", "dashboard_item"] as const).map(
  (value) => ({ value, label: SCOPE_LABELS[value] }),
);

/// Where an annotation is drawn, in words.
export function scopeText(annotation: Annotation): string {
  const { scope, dashboard_name, insight_name, insight_derived_name } = annotation;
  if (scope === "dashboard") return `Dashboard ${dashboard_name ?? ""}`.trim();
  if (scope === "dashboard_item")
    return `Insight ${insight_name || insight_derived_name || ""}`.trim();
  return SCOPE_LABELS[scope];
}

/// Makes an annotation, or changes the one of the id.
export function saveAnnotation(
  projectId: string,
  id: number | null,
  body: AnnotationFields,
): Promise<Annotation> {
  return id === null
    ? call(
        api.POST("/api/projects/{project_id}/annotations", {
          params: { path: { project_id: projectId } },
          body,
        }),
      )
    : call(
        api.PATCH("/api/projects/{project_id}/annotations/{id}", {
          params: { path: { project_id: projectId, id } },
          body,
        }),
      );
}

/// Deletes an annotation, with ten seconds to take it back.
export function useDeleteAnnotation(projectId: string) {
  const client = useQueryClient();
  const set = async (id: number, deleted: boolean) => {
    try {
      await saveAnnotation(projectId, id, { deleted });
      await client.invalidateQueries({ queryKey: ["annotations", projectId] });
      return true;
    } catch (error) {
      toast.error(error, deleted ? "Could not delete it" : "Could not bring it back");
      return false;
    }
  };
  return async ({ id, content }: Annotation) => {
    if (!(await set(id, true))) return;
    toast.success("Deleted the annotation", {
      description: content ?? undefined,
      undo: () => void set(id, false),
    });
  };
}
