/// Variables of the project: names with a default, which SQL writes as `{variables.name}`.

import { queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import type { ValueType } from "@/persons/propertyValue";
import { writtenName } from "@/sql/names";

export type InsightVariable = Schemas["InsightVariable"];
export type VariableType = Schemas["InsightVariableType"];
export type VariableFields = Schemas["InsightVariableFields"];

/// More than a project can have.
const VARIABLES_MAX = 1_000;

export const TYPES: readonly { value: VariableType; label: string }[] = [
  { value: "String", label: "Text" },
  { value: "Number", label: "Number" },
  { value: "Boolean", label: "Yes or no" },
  { value: "List", label: "One of a list" },
  { value: "Date", label: "Date" },
];

export const variablesKey = (projectId: string) => ["insight_variables", projectId];

export function variablesQuery(projectId: string) {
  return queryOptions({
    queryKey: variablesKey(projectId),
    queryFn: async ({ signal }) => {
      const params = { path: { project_id: projectId }, query: { limit: VARIABLES_MAX } };
      const found = await call(
        api.GET("/api/projects/{project_id}/insight_variables", { params, signal }),
      );
      return found.results;
    },
  });
}

/// Makes a variable, or changes the one of the id.
export function saveVariable(
  projectId: string,
  id: string | null,
  body: VariableFields,
): Promise<InsightVariable> {
  return id === null
    ? call(
        api.POST("/api/projects/{project_id}/insight_variables", {
          params: { path: { project_id: projectId } },
          body,
        }),
      )
    : call(
        api.PATCH("/api/projects/{project_id}/insight_variables/{id}", {
          params: { path: { project_id: projectId, id } },
          body,
        }),
      );
}

/// How SQL writes a variable. Names that no statement can hold as they are stand in backticks.
export function placeholder(codeName: string): string {
  return `{variables.${writtenName(codeName)}}`;
}

/// The name in SQL that the server derives from the first name.
export function codeNameOf(name: string): string {
  return name
    .replace(/[^\p{Alphabetic}\p{Number} _]/gu, "")
    .replaceAll(" ", "_")
    .toLowerCase();
}

/// How a value of the type is edited.
export function valueTypeOf(type: VariableType): ValueType {
  if (type === "Number") return "number";
  return type === "Boolean" ? "boolean" : "text";
}

/// The values to choose from; null for a type that is typed in.
export function choicesOf({
  type,
  values,
}: Pick<InsightVariable, "type" | "values">): readonly string[] | null {
  if (type === "Boolean") return ["true", "false"];
  return type === "List" ? (values ?? []) : null;
}

/// What counts where no other value is given.
export function defaultText({ default_value: value }: InsightVariable): string {
  return value === null || value === undefined ? "no default" : `default: ${String(value)}`;
}
