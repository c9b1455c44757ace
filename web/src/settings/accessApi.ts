import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { toast } from "@/ui";
import type { Subject } from "./AccessRules";

export type Kind = Schemas["ObjectKind"];

export const KINDS: readonly { value: Kind; label: string; one: string }[] = [
  { value: "dashboard", label: "Dashboards", one: "dashboard" },
  { value: "insight", label: "Insights", one: "insight" },
  { value: "feature_flag", label: "Flags", one: "flag" },
  { value: "action", label: "Actions", one: "action" },
];

type Controls = Schemas["AccessControls"];

/// What rules apply to: the project, all objects of a kind, or one object.
export type Target =
  | { kind: "project" }
  | { kind: "kinds" }
  | { kind: "object"; object: Kind; id: string };

function load(projectId: string, target: Target, signal: AbortSignal): Promise<Controls> {
  const path = { project_id: projectId };
  if (target.kind === "project") {
    return call(
      api.GET("/api/projects/{project_id}/access_controls", { params: { path }, signal }),
    );
  }
  if (target.kind === "kinds") {
    return call(
      api.GET("/api/projects/{project_id}/resource_access_controls", { params: { path }, signal }),
    );
  }
  const id = Number(target.id);
  switch (target.object) {
    case "action":
      return call(
        api.GET("/api/projects/{project_id}/actions/{id}/access_controls", {
          params: { path: { ...path, id } },
          signal,
        }),
      );
    case "dashboard":
      return call(
        api.GET("/api/projects/{project_id}/dashboards/{id}/access_controls", {
          params: { path: { ...path, id } },
          signal,
        }),
      );
    case "feature_flag":
      return call(
        api.GET("/api/projects/{project_id}/feature_flags/{id}/access_controls", {
          params: { path: { ...path, id } },
          signal,
        }),
      );
    case "insight":
      return call(
        api.GET("/api/projects/{project_id}/insights/{id}/access_controls", {
          params: { path: { ...path, id: target.id } },
          signal,
        }),
      );
  }
}

export interface RuleChange {
  subject: Subject;
  level: string | null;
  /// Which objects, where the target is all kinds.
  resource?: Kind;
}

function set(
  projectId: string,
  target: Target,
  { subject, level, resource }: RuleChange,
): Promise<unknown> {
  const path = { project_id: projectId };
  if (target.kind === "project") {
    const body = { ...subject, access_level: level as Schemas["ProjectAccess"] | null };
    return call(api.PUT("/api/projects/{project_id}/access_controls", { params: { path }, body }));
  }
  const body = { ...subject, access_level: level as Schemas["AccessLevel"] | null };
  if (target.kind === "kinds") {
    return call(
      api.PUT("/api/projects/{project_id}/resource_access_controls", {
        params: { path },
        body: { ...body, resource },
      }),
    );
  }
  const id = Number(target.id);
  switch (target.object) {
    case "action":
      return call(
        api.PUT("/api/projects/{project_id}/actions/{id}/access_controls", {
          params: { path: { ...path, id } },
          body,
        }),
      );
    case "dashboard":
      return call(
        api.PUT("/api/projects/{project_id}/dashboards/{id}/access_controls", {
          params: { path: { ...path, id } },
          body,
        }),
      );
    case "feature_flag":
      return call(
        api.PUT("/api/projects/{project_id}/feature_flags/{id}/access_controls", {
          params: { path: { ...path, id } },
          body,
        }),
      );
    case "insight":
      return call(
        api.PUT("/api/projects/{project_id}/insights/{id}/access_controls", {
          params: { path: { ...path, id: target.id } },
          body,
        }),
      );
  }
}

/// The access rules of a target, and the function that sets one.
export function useAccessRules(projectId: string, target: Target) {
  const client = useQueryClient();
  const queryKey = ["access_controls", projectId, target];
  const query = useQuery({
    queryKey,
    placeholderData: undefined,
    queryFn: ({ signal }) => load(projectId, target, signal),
  });
  const change = useMutation({
    mutationFn: (rule: RuleChange) => set(projectId, target, rule),
    onSuccess: () => client.invalidateQueries({ queryKey }),
    onError: (error) => toast.error(error, "Could not change the access"),
  });
  return { query, change };
}
