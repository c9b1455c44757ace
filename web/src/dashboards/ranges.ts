/// Ranges as the API takes them, in words.

export const PRESETS: readonly { from: string; to?: string; label: string }[] = [
  { from: "dStart", label: "Today" },
  { from: "-1dStart", to: "-1dEnd", label: "Yesterday" },
  { from: "-24h", label: "Last 24 hours" },
  { from: "-7d", label: "Last 7 days" },
  { from: "-14d", label: "Last 14 days" },
  { from: "-30d", label: "Last 30 days" },
  { from: "-90d", label: "Last 90 days" },
  { from: "mStart", label: "This month" },
  { from: "-1mStart", to: "-1mEnd", label: "Last month" },
  { from: "yStart", label: "This year" },
  { from: "all", label: "All time" },
];

const UNITS: Record<string, [one: string, many: string]> = {
  h: ["hour", "hours"],
  d: ["day", "days"],
  w: ["week", "weeks"],
  m: ["month", "months"],
  q: ["quarter", "quarters"],
  y: ["year", "years"],
};
const RELATIVE = /^-(\d{1,4})([hdwmqy])$/;
const DATE = /^\d{4}-\d{2}-\d{2}/;

/// A date for people, without a shift by the browser's zone.
function day(text: string): string {
  const date = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return Number.isNaN(date.getTime())
    ? text
    : new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" }).format(date);
}

export function rangeLabel(from: string | undefined, to: string | undefined): string {
  if (!from && !to) return "Each insight's own range";
  const preset = PRESETS.find((item) => item.from === from && (item.to ?? "") === (to ?? ""));
  if (preset) return preset.label;
  const relative = RELATIVE.exec(from ?? "");
  if (relative && !to) {
    const [, count = "1", unit = "d"] = relative;
    const [one, many] = UNITS[unit] ?? ["", ""];
    return count === "1" ? `Last ${one}` : `Last ${count} ${many}`;
  }
  const start = from ? (DATE.test(from) ? day(from) : from) : "The beginning";
  const end = to ? (DATE.test(to) ? day(to) : to) : "now";
  return `${start} – ${end}`;
}

/// What people type for a range: `-14d`, `14d`, `2026-03-01`, or two dates with `..` or a space between.
export function readRange(text: string): { from: string; to?: string } | null {
  const trimmed = text.trim().toLowerCase();
  const relative = /^-?(\d{1,4})\s?([hdwmqy])$/.exec(trimmed);
  if (relative) return { from: `-${relative[1]}${relative[2]}` };
  const dates = trimmed.split(/\s*(?:\.\.|–|\s|to)\s*/).filter(Boolean);
  if (dates.length === 0 || dates.length > 2) return null;
  if (!dates.every((date) => /^\d{4}-\d{2}-\d{2}$/.test(date) && !Number.isNaN(Date.parse(date)))) {
    return null;
  }
  const [from = "", to] = dates;
  return to === undefined || from <= to ? { from, to } : { from: to, to: from };
}

/// The range of the same length just before or after. Only fixed dates and `-Nd` can be shifted.
export function shiftRange(
  from: string | undefined,
  to: string | undefined,
  direction: -1 | 1,
  today: string,
): { from: string; to: string } | null {
  const DAY_MS = 86_400_000;
  const dayOf = (text: string) => Date.parse(`${text.slice(0, 10)}T00:00:00Z`);
  const relative = /^-(\d{1,4})d$/.exec(from ?? "");
  let start: number;
  let end: number;
  if (relative && !to) {
    end = dayOf(today);
    start = end - Number(relative[1]) * DAY_MS;
  } else if (from && DATE.test(from)) {
    start = dayOf(from);
    end = to && DATE.test(to) ? dayOf(to) : dayOf(today);
  } else {
    return null;
  }
  const length = end - start + DAY_MS;
  const text = (time: number) => new Date(time + direction * length).toISOString().slice(0, 10);
  return { from: text(start), to: text(end) };
}
