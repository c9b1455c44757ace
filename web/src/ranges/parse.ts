/// Date ranges from what people write, and from native inputs.

import { DATE, type DateRange, onClocks, PRESETS, UNITS } from "./range";

const GRAMMAR = /^-?\d{0,4}[sMhdwmqy](Start|End)?$/;

/// The end of a range as native inputs take it; empty for what is relative.
export function inputsOf(
  text: string | null | undefined,
  timeZone: string,
): { date: string; time: string } {
  const local = onClocks(text, timeZone) ?? "";
  return { date: local.slice(0, 10), time: local.slice(11, 19) };
}

/// A range of dates, with or without times. Where one end has a time, both have: the server then
/// takes them exactly.
export function rangeOfDates(from: string, to: string): DateRange {
  const ends = (first: string, last: string): DateRange => ({
    date_from: first || "all",
    ...(last ? { date_to: last } : {}),
  });
  if (from.length <= 10 && to.length <= 10) return ends(from, to);
  const timed = (text: string, time: string) => (text.length === 10 ? `${text}T${time}` : text);
  return { ...ends(timed(from, "00:00:00"), timed(to, "23:59:59")), explicitDate: true };
}

/// One end of a range as typed: a date, or relative such as `-14d`, `14d`, `mStart`.
function parseEnd(text: string): string | null {
  const trimmed = text.trim();
  if (DATE.test(trimmed)) {
    return Number.isNaN(Date.parse(trimmed.slice(0, 10))) ? null : trimmed.replace(" ", "T");
  }
  if (trimmed === "all") return trimmed;
  const relative = /^-?(\d{1,4})\s?([sMhdwmqy])$/.exec(trimmed);
  if (relative) return `-${relative[1]}${relative[2]}`;
  return GRAMMAR.test(trimmed) ? trimmed : null;
}

/// Between two ends. Two dates need no word.
const BETWEEN = /\s+(?:to|until)\s+|\s*(?:\.\.|–)\s*|\s+(?=\d{4}-\d{2}-\d{2}$)/;

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
  const ends = trimmed.split(BETWEEN);
  if (ends.length > 2) return null;
  const from = parseEnd(ends[0] ?? "");
  if (from === null) return null;
  const isDate = DATE.test(from);
  if (ends.length === 1 || ends[1]?.toLowerCase() === "now") {
    return isDate ? rangeOfDates(from, "") : { date_from: from };
  }
  const to = parseEnd(ends[1] ?? "");
  if (to === null || to === "all" || from === "all") return null;
  if (isDate && DATE.test(to)) {
    return from > to ? rangeOfDates(to, from) : rangeOfDates(from, to);
  }
  return { date_from: from, date_to: to };
}
