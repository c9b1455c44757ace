/// Date ranges as the API takes them: presets, labels, and shifting.

import type { Schemas } from "@/api/client";
import { zonedDate, zonedDateTime } from "@/insights/zones";

type Interval = Schemas["Interval"];
/// Dates without a time are whole days, also the last one.
export type DateRange = Schemas["DateRange"];

export interface RangePreset {
  label: string;
  range: DateRange;
}

export const PRESETS: readonly RangePreset[] = [
  { label: "Last hour", range: { date_from: "-1h" } },
  { label: "Last 24 hours", range: { date_from: "-24h" } },
  { label: "Today", range: { date_from: "dStart" } },
  { label: "Yesterday", range: { date_from: "-1dStart", date_to: "-1dEnd" } },
  { label: "Last 7 days", range: { date_from: "-7d" } },
  { label: "Last 14 days", range: { date_from: "-14d" } },
  { label: "Last 30 days", range: { date_from: "-30d" } },
  { label: "Last 90 days", range: { date_from: "-90d" } },
  { label: "Last 180 days", range: { date_from: "-180d" } },
  { label: "This month", range: { date_from: "mStart" } },
  { label: "Last month", range: { date_from: "-1mStart", date_to: "-1mEnd" } },
  { label: "This year", range: { date_from: "yStart" } },
  { label: "All time", range: { date_from: "all" } },
];

export const UNITS: Record<string, string> = {
  s: "second",
  M: "minute",
  h: "hour",
  d: "day",
  w: "week",
  m: "month",
  q: "quarter",
  y: "year",
};
const RELATIVE = /^-(\d{1,4})([sMhdwmqy])$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
export const DATE = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?$/;
const OFFSET = /(Z|[+-]\d{2}:?\d{2})$/;

function same(a: DateRange, b: DateRange): boolean {
  return (
    (a.date_from || null) === (b.date_from || null) && (a.date_to || null) === (b.date_to || null)
  );
}

/// A date, or a date and a time, on the zone's clocks; null for what is relative or no date.
export function onClocks(text: string | null | undefined, timeZone: string): string | null {
  if (!text || !DATE.test(text)) return null;
  const iso = text.replace(" ", "T");
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return null;
  return OFFSET.test(iso.slice(10)) ? zonedDateTime(at, timeZone) : iso;
}

/// Whether a range is from one date to another, without times.
export function isOfDays({ date_from: from, date_to: to }: DateRange): boolean {
  return DAY.test(from ?? "") && DAY.test(to ?? "");
}

/// As in "Last 7 days" or "Nov 1 – 14, 2026".
export function rangeLabel(
  range: DateRange | undefined,
  timeZone: string,
  emptyLabel = "Last 7 days",
): string {
  const { date_from: from, date_to: to } = range ?? {};
  if (!from && !to) return emptyLabel;
  const preset = PRESETS.find((one) => same(one.range, { date_from: from, date_to: to }));
  if (preset) return preset.label;
  const relative = RELATIVE.exec(from ?? "");
  if (relative && !to) {
    const [, count = "", unit = ""] = relative;
    return `Last ${count} ${UNITS[unit]}${count === "1" ? "" : "s"}`;
  }
  const [start, end] = [onClocks(from, timeZone), onClocks(to, timeZone)];
  const isTimed = [start, end].some((text) => text && text.length > 10);
  // The clocks of the zone, without a shift by the browser's.
  const format = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: isTimed ? "short" : undefined,
    timeZone: "UTC",
  });
  const at = (local: string) => new Date(local.length === 10 ? `${local}T00:00Z` : `${local}Z`);
  if (start && end) return format.formatRange(at(start), at(end));
  const [a, b] = [start ? format.format(at(start)) : from, end ? format.format(at(end)) : to];
  if (!b) return `Since ${a}`;
  return a === "all" ? `Until ${b}` : `${a || "7 days ago"} – ${b}`;
}

const DAYS_PER: Record<string, number> = {
  s: 1 / 86_400,
  M: 1 / 1_440,
  h: 1 / 24,
  d: 1,
  w: 7,
  m: 30,
  q: 91,
  y: 365,
};

/// About how many days a range has; null where only the server knows.
export function rangeDays(range: DateRange | undefined): number | null {
  const { date_from: from, date_to: to } = range ?? {};
  if (!from && !to) return 7;
  if (from === "all") return null;
  const relative = RELATIVE.exec(from ?? "");
  if (relative && !to) return Number(relative[1]) * (DAYS_PER[relative[2] ?? "d"] ?? 1);
  if (from && to && DATE.test(from) && DATE.test(to)) {
    return (Date.parse(to.slice(0, 10)) - Date.parse(from.slice(0, 10))) / 86_400_000 + 1;
  }
  if (from === "dStart" || from === "-1dStart") return 1;
  if (from === "mStart" || from === "-1mStart") return 30;
  if (from === "yStart") return 200;
  return null;
}

/// The interval that suits a range.
export function suggestedInterval(range: DateRange | undefined): Interval {
  const days = rangeDays(range);
  if (days === null) return "week";
  if (days < 0.2) return "minute";
  if (days <= 2) return "hour";
  if (days <= 95) return "day";
  return days <= 400 ? "week" : "month";
}

/// The range of a drag over intervals, as dates of the project's zone.
export function draggedRange(
  from: number,
  to: number,
  interval: Interval,
  timeZone: string,
): DateRange {
  if (interval === "hour" || interval === "minute" || interval === "second") {
    const step = { hour: 3_600_000, minute: 60_000, second: 1_000 }[interval];
    return {
      date_from: zonedDateTime(from, timeZone),
      date_to: zonedDateTime(to + step - 1_000, timeZone),
      explicitDate: true,
    };
  }
  let end = zonedDate(to, timeZone);
  if (interval === "week") end = addDays(end, 6);
  if (interval === "month") {
    const [year = 0, month = 1] = end.split("-").map(Number);
    end = new Date(Date.UTC(year, month, 0)).toISOString().slice(0, 10);
  }
  return { date_from: zonedDate(from, timeZone), date_to: end };
}

export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/// The range before or after one that was resolved by the server, of the same length.
export function shiftedRange(
  resolved: { date_from: string; date_to: string },
  direction: -1 | 1,
  timeZone: string,
): DateRange {
  const [from, to] = [Date.parse(resolved.date_from), Date.parse(resolved.date_to)];
  if (to - from < 86_000_000) {
    const length = to - from + 1_000;
    return {
      date_from: zonedDateTime(from + direction * length, timeZone),
      date_to: zonedDateTime(to + direction * length, timeZone),
      explicitDate: true,
    };
  }
  const [a, b] = [zonedDate(from, timeZone), zonedDate(to, timeZone)];
  const days = Math.round((Date.parse(b) - Date.parse(a)) / 86_400_000) + 1;
  return { date_from: addDays(a, direction * days), date_to: addDays(b, direction * days) };
}

/// As `shiftedRange`, where no server has resolved the range: of fixed dates and `-14d` only.
export function shiftedDays(
  { date_from: from, date_to: to }: DateRange,
  direction: -1 | 1,
  today: string,
): { date_from: string; date_to: string } | null {
  const relative = /^-(\d{1,4})d$/.exec(from ?? "");
  let start: string;
  if (relative && !to) start = addDays(today, -Number(relative[1]));
  else if (from && DATE.test(from)) start = from.slice(0, 10);
  else return null;
  const end = to && DATE.test(to) ? to.slice(0, 10) : today;
  const days = (Date.parse(end) - Date.parse(start)) / 86_400_000 + 1;
  return {
    date_from: addDays(start, direction * days),
    date_to: addDays(end, direction * days),
  };
}
