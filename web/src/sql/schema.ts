/// What completion knows: tables, columns, functions, and the names of events and properties.

import { queryOptions } from "@tanstack/react-query";
import { api, call, type Query, runQuery } from "@/api/client";
import { ApiError } from "@/api/errors";
import { problemsOf, type SqlProblem } from "./positions";

export interface KnownFunction {
  name: string;
  detail: string;
}

export interface SqlColumn {
  /// As a statement writes it.
  name: string;
  /// Its type, or what it leads to.
  type: string;
  /// It stands for rows of another table, whose columns follow a dot.
  joins: boolean;
}

export interface SqlNames {
  /// Columns by table.
  tables: Readonly<Record<string, readonly SqlColumn[]>>;
  functions: readonly KnownFunction[];
  events: readonly string[];
  eventProperties: readonly string[];
  personProperties: readonly string[];
  /// The project's variables, as SQL names them.
  variables: readonly string[];
}

export const NO_NAMES: SqlNames = {
  tables: {},
  functions: [],
  events: [],
  eventProperties: [],
  personProperties: [],
  variables: [],
};

const NAMES_MAX = 1_000;
const STALE_MS = 5 * 60_000;

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function readColumn(field: unknown): SqlColumn {
  const { hogql_value: written, name, type, table, chain } = record(field);
  const joins = type === "lazy_table";
  const target = Array.isArray(chain) ? chain.map(word).join(".") : word(table);
  const shown = target ? `→ ${target}` : type === "unknown" ? "" : word(type);
  return { name: word(written) || word(name), type: shown, joins };
}

/// Tables and functions of a `DatabaseSchemaQuery`.
export function readSchema(answer: unknown): Pick<SqlNames, "tables" | "functions"> {
  const { tables, functions } = record(answer);
  const columns = Object.entries(record(tables)).map(([table, description]) => {
    const fields = Object.values(record(record(description).fields)).map(readColumn);
    return [table, fields.filter(({ name }) => name !== "")] as const;
  });
  const known = (Array.isArray(functions) ? functions : []).flatMap((one: unknown) => {
    const { name, signature, returns, kind } = record(one);
    if (word(name) === "") return [];
    return [{ name: word(name), detail: word(signature) || word(returns) || word(kind) }];
  });
  return { tables: Object.fromEntries(columns), functions: known };
}

/// A query about HogQL itself. A server that does not know the kind answers 400: then there is none.
async function askLanguage(projectId: string, query: object, signal?: AbortSignal) {
  try {
    return (await runQuery(projectId, query as Query, { signal })) as unknown;
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return null;
    throw error;
  }
}

export function schemaQuery(projectId: string) {
  return queryOptions({
    queryKey: ["sql_schema", projectId],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) =>
      readSchema(await askLanguage(projectId, { kind: "DatabaseSchemaQuery" }, signal)),
  });
}

export function definedNamesQuery(projectId: string) {
  const path = { project_id: projectId };
  const properties = async (type: "event" | "person", signal: AbortSignal) => {
    const found = await call(
      api.GET("/api/projects/{project_id}/property_definitions", {
        params: { path, query: { type, limit: NAMES_MAX, exclude_hidden: "true" } },
        signal,
      }),
    );
    return found.results.map(({ name }) => name);
  };
  return queryOptions({
    queryKey: ["sql_names", projectId],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) => {
      const [events, eventProperties, personProperties] = await Promise.all([
        call(
          api.GET("/api/projects/{project_id}/event_definitions", {
            params: { path, query: { limit: NAMES_MAX, exclude_hidden: "true" } },
            signal,
          }),
        ),
        properties("event", signal),
        properties("person", signal),
      ]);
      return {
        events: events.results.map(({ name }) => name),
        eventProperties,
        personProperties,
      };
    },
  });
}

/// What is wrong with a statement, without running it; null where the server cannot tell.
export async function checkStatement(
  projectId: string,
  query: { query: string; variables?: unknown },
  signal: AbortSignal,
): Promise<SqlProblem[] | null> {
  const answer = await askLanguage(
    projectId,
    { kind: "HogQLMetadata", language: "hogQL", query: query.query, variables: query.variables },
    signal,
  );
  return problemsOf(query.query, answer);
}
