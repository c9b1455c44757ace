/// Date ranges: presets, text, labels, and shifting.

import { intervalLabel } from "@/ui/format";
import type { DateRange, Interval } from "./queries";
import { zonedDate, zonedDateTime } from "./zones";

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

export const DEFAULT_RANGE: DateRange = { date_from: "-7d" };

const UNITS: Record<string, string> = {
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
const GRAMMAR = /^-?\d{0,4}[sMhdwmqy](Start|End)?$/;
const DATE = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?$/;

function same(a: DateRange, b: DateRange): boolean {
  return (
    (a.date_from ?? null) === (b.date_from ?? null) && (a.date_to ?? null) === (b.date_to ?? null)
  );
}

function dateText(text: string): string {
  const at = new Date(text.length === 10 ? `${text}T00:00:00Z` : text.replace(" ", "T"));
  if (Number.isNaN(at.getTime())) return text;
  if (text.length === 10) return intervalLabel(at, "day", "UTC");
  return text.replace("T", " ").slice(0, 16);
}

/// As in "Last 7 days" or "Nov 1 – Nov 14".
export function rangeLabel(range: DateRange | undefined): string {
  const { date_from: from, date_to: to } = range ?? {};
  if (!from && !to) return "Last 7 days";
  const preset = PRESETS.find((one) => same(one.range, { date_from: from, date_to: to }));
  if (preset) return preset.label;
  const relative = RELATIVE.exec(from ?? "");
  if (relative && !to) {
    const [, count = "", unit = ""] = relative;
    return `Last ${count} ${UNITS[unit]}${count === "1" ? "" : "s"}`;
  }
  const name = (text: string | null | undefined, fallback: string) =>
    !text ? fallback : DATE.test(text) ? dateText(text) : text;
  const [a, b] = [name(from, "7 days ago"), name(to, "now")];
  return a === b ? a : `${a} – ${b}`;
}

/// One end of a range as typed: a date, or relative such as `-14d`, `14d`, `mStart`.
function parseEnd(text: string): string | null {
  const trimmed = text.trim();
  if (DATE.test(trimmed)) {
    return Number.isNaN(Date.parse(trimmed.slice(0, 10))) ? null : trimmed;
  }
  if (trimmed === "all") return trimmed;
  if (/^\d{1,4}[sMhdwmqy]$/.test(trimmed)) return `-${trimmed}`;
  return GRAMMAR.test(trimmed) ? trimmed : null;
}

/// A range as typed, as in `-14d`, `2026-11-01 to 2026-11-14`, `last 3 weeks` or "yesterday".
export function parseRange(text: string): DateRange | null {
  const trimmed = text.trim();
  if (!trimmed) return null;
  const lower = trimmed.toLowerCase();
  const preset = PRESETS.find(({ label }) => label.toLowerCase() === lower);
  if (preset) return preset.range;
  const words = /^(?:last\s+)?(\d{1,4})\s*(second|minute|hour|day|week|month|quarter|year)s?$/.exec(
    lower,
  );
  if (words) {
    const unit = Object.entries(UNITS).find(([, name]) => name === words[2])?.[0];
    return { date_from: `-${words[1]}${unit}` };
  }
  const ends = trimmed.split(/\s+(?:to|until|–)\s+|\s*\.\.\s*/);
  if (ends.length > 2) return null;
  const from = parseEnd(ends[0] ?? "");
  if (from === null) return null;
  if (ends.length === 1) return { date_from: from };
  if ((ends[1] ?? "").toLowerCase() === "now") return { date_from: from };
  const to = parseEnd(ends[1] ?? "");
  if (to === null || to === "all" || from === "all") return null;
  if (DATE.test(from) && DATE.test(to) && from > to) return null;
  return { date_from: from, date_to: to };
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
