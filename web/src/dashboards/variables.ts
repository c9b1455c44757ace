/// Values that a dashboard gives to the variables of its SQL.

import type { Schemas } from "@/api/client";
import { insightSource } from "@/insights/queries";
import { variableNames } from "@/sql/names";
import type { DashboardSearch } from "./filters";

/// As the API stores them, by any key.
export type Variables = NonNullable<Schemas["Dashboard"]["variables"]>;
/// By the names in SQL; null for none, where one is saved.
export type VariableValues = NonNullable<DashboardSearch["variables"]>;

/// The variables that the SQL of the tiles names.
export function namedVariables(tiles: Schemas["Dashboard"]["tiles"]): string[] {
  const names = tiles.flatMap(({ insight }) => {
    const source = insightSource(insight?.query);
    return source?.kind === "HogQLQuery" ? variableNames(source.query) : [];
  });
  return [...new Set(names)];
}

/// The values in a stored form, for controls that show them.
export function valuesOf(stored: Schemas["Dashboard"]["variables"]): VariableValues {
  const values = Object.values(stored ?? {}).flatMap(({ code_name: name, value }) => {
    const isPlain = ["string", "number", "boolean"].includes(typeof value);
    return isPlain ? [[name, value]] : [];
  });
  return Object.fromEntries(values);
}

/// The variables to send to the API: the saved ones with those of the URL on top.
export function variablesOf(
  search: Pick<DashboardSearch, "variables">,
  saved: Schemas["Dashboard"]["variables"],
): Variables {
  const given = search.variables ?? {};
  const kept = Object.entries(saved ?? {}).filter(([, { code_name: name }]) => !(name in given));
  const added = Object.entries(given)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, { code_name: name, value }]);
  return Object.fromEntries([...kept, ...added]);
}
