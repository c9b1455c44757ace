import type { Schemas } from "@/api/client";
import type { TrendsQuery } from "@/insights/queries";

/// Today by the hour, beside the same day of last week.
export function todayQuery(math: "total" | "dau", event: string | null): TrendsQuery {
  return {
    kind: "TrendsQuery",
    interval: "hour",
    dateRange: { date_from: "dStart" },
    series: [{ kind: "EventsNode", event, math }],
    compareFilter: { compare: true, compare_to: "-7d" },
  };
}

/// Both days up to now, each as one number: a day that has just begun is not compared with a whole one,
/// and a person counts once, however many hours they come in.
export function soFarQuery(query: TrendsQuery, now: Date = new Date()): TrendsQuery {
  const dateRange = { date_from: "dStart", date_to: now.toISOString(), explicitDate: true };
  return { ...query, interval: "day", dateRange };
}

export interface Today {
  now: number;
  /// Up to the same time of the same day last week.
  before: number;
}

export function todaySums(
  lines: readonly Pick<Schemas["TrendsSeries"], "data" | "compare_label">[] | null,
): Today {
  const sum = (label: "current" | "previous") =>
    (lines?.find((line) => line.compare_label === label)?.data ?? []).reduce<number>(
      (total, value) => total + (value ?? 0),
      0,
    );
  return { now: sum("current"), before: sum("previous") };
}
