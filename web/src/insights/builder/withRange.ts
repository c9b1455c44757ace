import { rangeDays, suggestedInterval } from "@/ranges/range";
import type { InsightQuery, Interval, TrendsQuery } from "../queries";
import { zonedDate, zonedDateTime } from "../zones";

/// The server draws at most this many intervals.
const BUCKETS_MAX = 10_000;
const PER_DAY: Record<Interval, number> = {
  second: 86_400,
  minute: 1_440,
  hour: 24,
  day: 1,
  week: 1 / 7,
  month: 1 / 30,
};

/// The query with another range. The interval follows, unless somebody chose it.
export function withRange(query: InsightQuery, dateRange: InsightQuery["dateRange"]): InsightQuery {
  if (!("series" in query)) return { ...query, dateRange };
  const chosen = query.interval ?? "day";
  const followed = chosen === suggestedInterval(query.dateRange) || tooMany(chosen, dateRange);
  return { ...query, dateRange, interval: followed ? suggestedInterval(dateRange) : chosen };
}

/// The query since a change, beside the range of the same length before it. Days are whole: the day
/// of the change counts as after it. The interval stays, since the range only gets shorter.
export function comparedAt(query: TrendsQuery, at: number, timeZone: string): TrendsQuery {
  const { interval, dateRange } = query;
  const isShort = interval !== undefined && ["hour", "minute", "second"].includes(interval);
  const start = isShort ? zonedDateTime(at, timeZone) : zonedDate(at, timeZone);
  return {
    ...query,
    dateRange: { ...dateRange, date_from: start },
    compareFilter: { compare: true },
  };
}

/// Whether the server would refuse so many intervals.
export function tooMany(interval: Interval, range: InsightQuery["dateRange"]): boolean {
  const days = rangeDays(range);
  return days !== null && days * PER_DAY[interval] > BUCKETS_MAX;
}
