import { count } from "@/ui/format";

export interface SummarySeries {
  label: string;
  values: readonly (number | null)[];
}

/// One sentence on a time chart: how many series, where the first is highest, and its last value.
export function timeSummary(
  series: readonly SummarySeries[],
  labels: readonly string[],
  format: (value: number) => string,
): string {
  const first = series[0];
  if (!first || labels.length === 0) return "No values.";
  let highest = 0;
  first.values.forEach((value, at) => {
    if ((value ?? 0) > (first.values[highest] ?? 0)) highest = at;
  });
  const last = first.values.length - 1;
  const parts = [
    `${count(series.length, "series", "series")} from ${labels[0]} to ${labels[labels.length - 1]}.`,
    `${first.label} is highest at ${labels[highest]} with ${format(first.values[highest] ?? 0)}`,
    `and ends at ${format(first.values[last] ?? 0)}.`,
  ];
  return parts.join(" ");
}
