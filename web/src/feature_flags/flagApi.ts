import { queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queryClient";

export type Flag = Schemas["FeatureFlagWithAccess"];
export type FlagFields = Schemas["FeatureFlagFields"];
export type FlagFilters = Schemas["FlagFilters"];
export type FlagCondition = Schemas["FlagCondition"];
export type FlagVariant = Schemas["FlagVariant"];

const STALE_MS = 60_000;
/// The answer to "first figures at once".
const FIRST_FIGURES_MS = 200;

export function flagQuery(projectId: string, id: number) {
  return queryOptions({
    queryKey: ["feature_flag", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
}

export async function createFlag(projectId: string, fields: FlagFields): Promise<Flag> {
  const flag = await call(
    api.POST("/api/projects/{project_id}/feature_flags", {
      params: { path: { project_id: projectId } },
      body: fields,
    }),
  );
  remember(projectId, flag);
  return flag;
}

export async function updateFlag(projectId: string, id: number, fields: FlagFields): Promise<Flag> {
  const flag = await call(
    api.PATCH("/api/projects/{project_id}/feature_flags/{id}", {
      params: { path: { project_id: projectId, id } },
      body: fields,
    }),
  );
  remember(projectId, flag);
  return flag;
}

export function remember(projectId: string, flag: Flag): void {
  queryClient.setQueryData(flagQuery(projectId, flag.id).queryKey, flag);
  void queryClient.invalidateQueries({ queryKey: ["feature_flags", projectId] });
  void queryClient.invalidateQueries({ queryKey: ["flag_reach", projectId] });
  void queryClient.invalidateQueries({ queryKey: ["flag_history", projectId, flag.id] });
  void queryClient.invalidateQueries({ queryKey: ["flag_changes", projectId] });
}

/// What a change would do to everybody; of a flag without an id, what its creation would do. The quick
/// answer has the first figures, the other all of them.
export function dryRunQuery(
  projectId: string,
  id: number | null,
  fields: FlagFields,
  pace: "quick" | "whole",
) {
  const query = pace === "quick" ? { ms_max: FIRST_FIGURES_MS } : undefined;
  return queryOptions({
    queryKey: ["flag_dry_run", projectId, id, fields, pace],
    placeholderData: undefined,
    retry: false,
    gcTime: 0,
    queryFn: ({ signal }) =>
      id === null
        ? call(
            api.POST("/api/projects/{project_id}/feature_flags/dry_run", {
              params: { path: { project_id: projectId }, query },
              body: fields,
              signal,
            }),
          )
        : call(
            api.POST("/api/projects/{project_id}/feature_flags/{id}/dry_run", {
              params: { path: { project_id: projectId, id }, query },
              body: fields,
              signal,
            }),
          ),
  });
}

export interface Subject {
  distinctId: string;
  /// Keys by the type of group.
  groups: Readonly<Record<string, string>>;
}

/// Why somebody gets the value of a flag: of the stored one without `fields`, of a draft with them.
export function explainQuery(
  projectId: string,
  id: number | null,
  subject: Subject,
  fields: FlagFields | null,
) {
  const groups = Object.fromEntries(Object.entries(subject.groups).filter(([, key]) => key !== ""));
  const query = {
    distinct_id: subject.distinctId,
    groups: Object.keys(groups).length > 0 ? JSON.stringify(groups) : undefined,
  };
  return queryOptions({
    queryKey: ["flag_explanation", projectId, id, query, fields],
    placeholderData: undefined,
    retry: false,
    queryFn: ({ signal }) => {
      if (id === null) {
        return call(
          api.POST("/api/projects/{project_id}/feature_flags/explain", {
            params: { path: { project_id: projectId }, query },
            body: fields ?? {},
            signal,
          }),
        );
      }
      const params = { path: { project_id: projectId, id }, query };
      return fields
        ? call(
            api.POST("/api/projects/{project_id}/feature_flags/{id}/explain", {
              params,
              body: fields,
              signal,
            }),
          )
        : call(
            api.GET("/api/projects/{project_id}/feature_flags/{id}/explain", { params, signal }),
          );
    },
  });
}

/// At most this many scans for the reach of a list at once: each reads every person.
const SCANS_MAX = 2;
let scans = 0;
const waiting: (() => void)[] = [];

/// Runs one of few: others wait, unless nobody needs them any more.
async function inTurn<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  while (scans >= SCANS_MAX) await new Promise<void>((resolve) => waiting.push(resolve));
  scans += 1;
  try {
    signal.throwIfAborted();
    return await run();
  } finally {
    scans -= 1;
    waiting.shift()?.();
  }
}

/// How many persons, or groups of a type, match the conditions, whatever their rollout.
export function reachQuery(
  projectId: string,
  conditions: readonly FlagCondition[],
  groupTypeIndex: number | null,
  turn: "now" | "later" = "now",
) {
  const groups = conditions.map(({ properties }) => ({ properties }));
  return queryOptions({
    queryKey: ["flag_reach", projectId, groupTypeIndex, groups],
    staleTime: STALE_MS,
    retry: false,
    queryFn: ({ signal }) => {
      const scan = () =>
        call(
          api.POST("/api/projects/{project_id}/feature_flags/user_blast_radius", {
            params: { path: { project_id: projectId } },
            body: { filters: { groups }, group_type_index: groupTypeIndex },
            signal,
          }),
        );
      return turn === "now" ? scan() : inTurn(signal, scan);
    },
  });
}
