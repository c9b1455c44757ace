import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { isComplete } from "@/filters/operators";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { type FlagCondition, reachQuery } from "../flagApi";

/// After the last key, before the persons are counted.
const REST_MS = 300;

export interface Reach {
  affected: number;
  total: number;
}

export interface ReachState {
  /// Of each condition by itself, whatever its rollout; null until it is known.
  conditions: readonly (Reach | null)[];
  /// Who matches any condition, by the type of group (null for persons).
  together: readonly { groupTypeIndex: number | null; reach: Reach }[];
  /// Of conditions as they were before the last edit.
  isStale: boolean;
  error: unknown;
}

/// A condition as it can be counted: filters that are still being written are left out.
function countable(condition: FlagCondition): FlagCondition {
  return { ...condition, properties: (condition.properties ?? []).filter(isComplete) };
}

/// How many persons or groups match, counted as one edits: one scan for each type that conditions are
/// about. A request that is superseded is cancelled.
export function useReach(conditions: readonly FlagCondition[]): ReachState {
  const { projectId } = useProject();
  const wanted = useMemo(() => JSON.stringify(conditions.map(countable)), [conditions]);
  const settled = useDebounced(wanted, REST_MS);
  const counted = useMemo(() => JSON.parse(settled) as FlagCondition[], [settled]);
  const types = useMemo(
    () => [...new Set(counted.map(({ aggregation_group_type_index: index }) => index ?? null))],
    [counted],
  );
  const placed = types.map((type) => ({
    type,
    places: counted.flatMap(({ aggregation_group_type_index: index }, at) =>
      (index ?? null) === type ? [at] : [],
    ),
  }));
  const answers = useQueries({
    queries: placed.map(({ type, places }) =>
      reachQuery(
        projectId,
        counted.filter((_, at) => places.includes(at)),
        type,
      ),
    ),
  });
  const found: (Reach | null)[] = conditions.map(() => null);
  const together: { groupTypeIndex: number | null; reach: Reach }[] = [];
  placed.forEach(({ type, places }, at) => {
    const answer = answers[at]?.data;
    if (!answer) return;
    const { affected, total } = answer;
    together.push({ groupTypeIndex: type, reach: { affected, total } });
    places.forEach((place, position) => {
      const own = answer.conditions[position];
      if (own && place < found.length) found[place] = { affected: own.affected, total };
    });
  });
  return {
    conditions: found,
    together,
    isStale: wanted !== settled || answers.some((answer) => answer.isPlaceholderData),
    error: answers.find((answer) => answer.isError)?.error ?? null,
  };
}
