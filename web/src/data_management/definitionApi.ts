import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import type { EventDefinition, PropertyDefinition } from "@/filters/definitions";
import { toast } from "@/ui";

export const TYPE_LABELS: Record<Schemas["PropertyType"], string> = {
  String: "Text",
  Numeric: "Number",
  Boolean: "Yes or no",
  DateTime: "Date and time",
  Duration: "Duration",
};

/// What both kinds of definitions are changed in.
export type SharedFields = Pick<
  Schemas["DefinitionFields2"],
  "description" | "hidden" | "tags" | "verified"
>;

/// Changes an event definition; lists and pickers then load it again.
export function useEventDefinitionChange(projectId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, ...body }: { id: string } & Schemas["DefinitionFields"]) =>
      call(
        api.PATCH("/api/projects/{project_id}/event_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
          body,
        }),
      ),
    onSuccess: (definition) => {
      client.setQueryData(["event_definition", projectId, definition.id], definition);
      return client.invalidateQueries({ queryKey: ["event_definitions", projectId] });
    },
    onError: (error) => toast.error(error, "Could not change the event"),
  });
}

export function usePropertyDefinitionChange(projectId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, ...body }: { id: string } & Schemas["DefinitionFields2"]) =>
      call(
        api.PATCH("/api/projects/{project_id}/property_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
          body,
        }),
      ),
    onSuccess: (definition) => {
      client.setQueryData(["property_definition_by_id", projectId, definition.id], definition);
      void client.invalidateQueries({ queryKey: ["property_definition", projectId] });
      return client.invalidateQueries({ queryKey: ["property_definitions", projectId] });
    },
    onError: (error) => toast.error(error, "Could not change the property"),
  });
}

export function useDeleteEventDefinition(projectId: string, onDeleted: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id }: EventDefinition) =>
      call(
        api.DELETE("/api/projects/{project_id}/event_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
        }),
      ),
    onSuccess: (_, { name }) => {
      onDeleted();
      toast.success(`Deleted the definition of “${name}”`);
      return client.invalidateQueries({ queryKey: ["event_definitions", projectId] });
    },
    onError: (error) => toast.error(error, "Could not delete it"),
  });
}

export function useDeletePropertyDefinition(projectId: string, onDeleted: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id }: PropertyDefinition) =>
      call(
        api.DELETE("/api/projects/{project_id}/property_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
        }),
      ),
    onSuccess: (_, { name }) => {
      onDeleted();
      toast.success(`Deleted the definition of “${name}”`);
      return client.invalidateQueries({ queryKey: ["property_definitions", projectId] });
    },
    onError: (error) => toast.error(error, "Could not delete it"),
  });
}
