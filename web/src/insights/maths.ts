import type { Schemas } from "@/api/client";
import type { SeriesNode } from "./queries";

type Maths = Schemas["Math"];

/// How a series counts. Percentiles are one entry in menus, with the percentile beside it.
export interface MathOption {
  value: Maths;
  label: string;
  /// For the label of a series, as in "unique persons"; empty for the plain count.
  short: string;
  needs?: "property" | "group" | "hogql";
  hint?: string;
}

export const COUNT_MATHS: readonly MathOption[] = [
  { value: "total", label: "Total count", short: "", hint: "Every event" },
  { value: "dau", label: "Unique persons", short: "unique persons" },
  {
    value: "weekly_active",
    label: "Weekly active persons",
    short: "weekly active",
    hint: "In the seven days up to each interval",
  },
  {
    value: "monthly_active",
    label: "Monthly active persons",
    short: "monthly active",
    hint: "In the thirty days up to each interval",
  },
  { value: "unique_session", label: "Unique sessions", short: "unique sessions" },
  {
    value: "first_time_for_user",
    label: "First time ever",
    short: "first time",
    hint: "Persons who do it for the first time",
  },
  {
    value: "first_matching_event_for_user",
    label: "First time that matches",
    short: "first match",
    hint: "The first event that passes the filters",
  },
];

export const PROPERTY_MATHS: readonly MathOption[] = [
  { value: "sum", label: "Sum", short: "sum", needs: "property" },
  { value: "avg", label: "Average", short: "average", needs: "property" },
  { value: "min", label: "Minimum", short: "minimum", needs: "property" },
  { value: "max", label: "Maximum", short: "maximum", needs: "property" },
];

export const PER_ACTOR_MATHS: readonly MathOption[] = [
  { value: "avg_count_per_actor", label: "Average per person", short: "average per person" },
  { value: "min_count_per_actor", label: "Minimum per person", short: "minimum per person" },
  { value: "max_count_per_actor", label: "Maximum per person", short: "maximum per person" },
];

export const PERCENTILES = [
  { value: "median", label: "Median" },
  { value: "p75", label: "75th" },
  { value: "p90", label: "90th" },
  { value: "p95", label: "95th" },
  { value: "p99", label: "99th" },
] as const;

export const HOGQL_MATH: MathOption = {
  value: "hogql",
  label: "SQL expression",
  short: "SQL",
  needs: "hogql",
};

export function isPercentile(math: string | undefined): boolean {
  return PERCENTILES.some(({ value }) => value === math);
}

export function isPercentilePerActor(math: string | undefined): boolean {
  return PERCENTILES.some(({ value }) => `${value}_count_per_actor` === math);
}

export function needsProperty(math: string | undefined): boolean {
  return isPercentile(math) || PROPERTY_MATHS.some(({ value }) => value === math);
}

/// As in "sum of amount"; empty for the plain count.
export function mathLabel(node: SeriesNode): string {
  const { math = "total" } = node;
  if (math === "unique_group") return "unique groups";
  if (math === "hogql") return node.math_hogql ?? "SQL";
  const percentile = PERCENTILES.find(
    ({ value }) => value === math || `${value}_count_per_actor` === math,
  );
  if (percentile) {
    const name =
      percentile.value === "median" ? "median" : `${percentile.label.toLowerCase()} percentile`;
    return math === percentile.value
      ? `${name} of ${node.math_property ?? "…"}`
      : `${name} per person`;
  }
  if (needsProperty(math)) {
    const option = PROPERTY_MATHS.find(({ value }) => value === math);
    return `${option?.short ?? math} of ${node.math_property ?? "…"}`;
  }
  const option = [...COUNT_MATHS, ...PER_ACTOR_MATHS].find(({ value }) => value === math);
  return option?.short ?? math;
}
