/// Flags of a person: as served beside now.

import type { Schemas } from "@/api/client";
import { reasonText } from "@/feature_flags/model/explanation";
import type { SqlQuery } from "@/insights/queries";

export interface ServedFlag {
  key: string;
  value: string | boolean;
  at: string;
}

export interface Served {
  rows: ServedFlag[];
  /// The groups of the newest call.
  groups?: Record<string, string>;
}

export interface FlagRow {
  key: string;
  /// Null if the flag is gone.
  id: number | null;
  served?: string | boolean;
  at?: string;
  now?: string | boolean;
  reason?: string;
  differs: boolean;
}

/// The newest call of each flag by a person.
export function servedQuery(personId: string): SqlQuery {
  return {
    kind: "HogQLQuery",
    query: `SELECT properties.$feature_flag AS flag,
  argMax(properties.$feature_flag_response, timestamp) AS value,
  max(timestamp) AS called,
  argMax(properties.$groups, timestamp) AS groups
FROM events
WHERE event = '$feature_flag_called' AND person_id = {person}
GROUP BY flag ORDER BY called DESC LIMIT 1000`,
    values: { person: personId },
  };
}

function flagValue(value: unknown): string | boolean {
  if (value === true || value === "true") return true;
  if (value === false || value === "false" || value === null || value === "") return false;
  return String(value);
}

function groupsOf(value: unknown): Record<string, string> | undefined {
  try {
    const found: unknown = typeof value === "string" ? JSON.parse(value) : value;
    if (typeof found !== "object" || found === null || Array.isArray(found)) return undefined;
    const entries = Object.entries(found).map(([type, key]) => [type, String(key)] as const);
    return entries.length > 0 ? Object.fromEntries(entries) : undefined;
  } catch {
    return undefined;
  }
}

export function servedFlags(results: readonly unknown[][]): Served {
  const rows = results.flatMap(([key, value, at]) =>
    typeof key === "string" && key !== "" ? [{ key, value: flagValue(value), at: String(at) }] : [],
  );
  return { rows, groups: groupsOf(results[0]?.[3]) };
}

export function flagRows(
  flags: readonly { id: number; key: string }[],
  served: readonly ServedFlag[],
  now: Readonly<Record<string, Schemas["FlagEvaluation"]>>,
): FlagRow[] {
  const calls = new Map(served.map((call) => [call.key, call]));
  const row = (key: string, id: number | null): FlagRow => {
    const call = calls.get(key);
    const current = now[key];
    return {
      key,
      id,
      served: call?.value,
      at: call?.at,
      now: current?.value,
      reason: current && reasonText(current.evaluation),
      differs: call !== undefined && current !== undefined && call.value !== current.value,
    };
  };
  const known = new Set(flags.map(({ key }) => key));
  const rows = [
    ...flags.map(({ key, id }) => row(key, id)),
    ...served.filter(({ key }) => !known.has(key)).map(({ key }) => row(key, null)),
  ];
  // Called ones first, the newest on top.
  return rows.sort((a, b) => (b.at ?? "").localeCompare(a.at ?? "") || a.key.localeCompare(b.key));
}
