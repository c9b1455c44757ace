/// Property filters of queries.

import type { Schemas } from "@/api/client";

export type FilterType = Schemas["PropertyFilterKind"];
export type FilterOperator = Schemas["PropertyOperator"];
export type FilterValue = Schemas["FilterValue"];
export type PropertyFilter = Schemas["PropertyFilter"];
/// A group as it is edited. Of the API's groups one without values is empty.
export interface FilterGroup {
  type: Schemas["LogicalOperator"];
  values: (PropertyFilter | FilterGroup)[];
}
/// A list means AND.
export type Filters = Schemas["PropertyFilters"];

/// A property's name, an SQL expression or a flag's id.
export function filterKey({ key }: PropertyFilter): string {
  return String(key ?? "");
}

export function isGroup(
  filter: PropertyFilter | FilterGroup | Schemas["PropertyFilterGroup"],
): filter is FilterGroup {
  return "values" in filter;
}

/// Any form of filters as a group. PostHog wraps the only group in another, which says nothing.
export function asGroup(filters: Filters | null | undefined): FilterGroup {
  if (!filters) return { type: "AND", values: [] };
  if (Array.isArray(filters)) return { type: "AND", values: filters as FilterGroup["values"] };
  const [only, ...others] = filters.values ?? [];
  if (only && others.length === 0 && isGroup(only)) return asGroup(only);
  return isGroup(filters) ? filters : { type: "AND", values: [] };
}

/// The shortest form that means the same: a list where all must hold, nothing where there is none.
export function compactFilters(group: FilterGroup): Filters | undefined {
  if (group.values.length === 0) return undefined;
  if (group.type === "AND" && group.values.every((value) => !isGroup(value))) {
    return group.values;
  }
  return group;
}

export function countFilters(filters: Filters | null | undefined): number {
  return asGroup(filters).values.reduce(
    (sum, value) => sum + (isGroup(value) ? countFilters(value) : 1),
    0,
  );
}
