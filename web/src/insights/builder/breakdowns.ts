import type { PropertyChoice } from "@/filters/PropertyPicker";
import type { Breakdown, BreakdownFilter, BreakdownType } from "../queries";

/// The breakdowns of a query, whichever of the two forms has them.
export function readBreakdowns(filter: BreakdownFilter | undefined): Breakdown[] {
  if (!filter) return [];
  if (filter.breakdowns && filter.breakdowns.length > 0) return filter.breakdowns;
  const { breakdown, breakdown_type: type, breakdown_group_type_index: index } = filter;
  if (breakdown === null || breakdown === undefined || breakdown === "") return [];
  const values = Array.isArray(breakdown) ? breakdown : [breakdown];
  return values.map((property) => ({
    property,
    type: type ?? "event",
    ...(index === undefined || index === null ? {} : { group_type_index: index }),
    ...(filter.breakdown_normalize_url ? { normalize_url: true } : {}),
    ...(filter.breakdown_histogram_bin_count
      ? { histogram_bin_count: filter.breakdown_histogram_bin_count }
      : {}),
  }));
}

/// The filter with other breakdowns; its limit stays. Cohorts have a form of their own.
export function writeBreakdowns(
  filter: BreakdownFilter | undefined,
  breakdowns: readonly Breakdown[],
): BreakdownFilter | undefined {
  const first = breakdowns[0];
  if (!first) return undefined;
  const { breakdown_limit, breakdown_hide_other_aggregation } = filter ?? {};
  const kept: BreakdownFilter = {
    ...(breakdown_limit ? { breakdown_limit } : {}),
    ...(breakdown_hide_other_aggregation ? { breakdown_hide_other_aggregation } : {}),
  };
  if (first.type === "cohort") {
    const cohorts = breakdowns.filter(({ type }) => type === "cohort");
    return {
      ...kept,
      breakdown_type: "cohort",
      breakdown: cohorts.map(({ property }) => (property === "all" ? "all" : Number(property))),
    };
  }
  return { ...kept, breakdowns: breakdowns.filter(({ type }) => type !== "cohort") };
}

export function breakdownOf({ type, key, groupIndex }: PropertyChoice): Breakdown {
  const breakdown: Breakdown = {
    type: type as BreakdownType,
    property: type === "cohort" ? Number(key) : key,
  };
  return groupIndex === undefined ? breakdown : { ...breakdown, group_type_index: groupIndex };
}

export function choiceOf({ property, type, group_type_index: index }: Breakdown): PropertyChoice {
  return { type: type ?? "event", key: String(property ?? ""), groupIndex: index ?? undefined };
}
