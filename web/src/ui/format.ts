/// Formats of numbers, times and ranges, by `Intl` in the browser's language.

import type { Schemas } from "@/api/client";

const EXACT = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const RELATIVE_SHORT = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "narrow" });

/// The whole number, for tables.
export function exact(value: number): string {
  return EXACT.format(value);
}

/// Short, for axes and tiles.
export function compact(value: number): string {
  return Math.abs(value) < 1_000 ? EXACT.format(value) : COMPACT.format(value);
}

/// A share from 0 to 1.
export function percent(share: number): string {
  return PERCENT.format(share);
}

const DURATION_UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
] as const;

/// Seconds as the two largest units, as in "2 h 5 min".
export function duration(seconds: number): string {
  const parts: string[] = [];
  if (Math.abs(seconds) < 1) return `${EXACT.format(seconds)} s`;
  let rest = Math.round(Math.abs(seconds));
  for (const [length, unit] of DURATION_UNITS) {
    if (rest < length && parts.length === 0) continue;
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) parts.push(`${count} ${unit}`);
    if (parts.length === 2) break;
  }
  return (seconds < 0 ? "−" : "") + parts.join(" ");
}

/// How long something took, as in "12 ms" or "1.2 s".
export function elapsed(seconds: number): string {
  if (seconds >= 1) return `${EXACT.format(Math.round(seconds * 10) / 10)} s`;
  return `${EXACT.format(Math.max(1, Math.round(seconds * 1_000)))} ms`;
}

const RELATIVE_UNITS: [number, Intl.RelativeTimeFormatUnit][] = [
  [365 * 86_400, "year"],
  [30 * 86_400, "month"],
  [7 * 86_400, "week"],
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];

/// As in "3 minutes ago", or in short "3m ago".
export function relativeTime(
  at: Date,
  now: Date = new Date(),
  style: "short" | "long" = "long",
): string {
  const format = style === "short" ? RELATIVE_SHORT : RELATIVE;
  const seconds = (at.getTime() - now.getTime()) / 1_000;
  for (const [length, unit] of RELATIVE_UNITS) {
    if (Math.abs(seconds) >= length) return format.format(Math.trunc(seconds / length), unit);
  }
  return "just now";
}

/// Date and time in a zone.
export function dateTime(at: Date, timeZone?: string): string {
  return new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: "medium",
    timeZone,
  }).format(at);
}

export type Interval = Schemas["Interval"];

/// An interval's label: short on axes, long in tooltips and tables.
export function intervalLabel(
  at: Date,
  interval: Interval,
  timeZone: string,
  style: "short" | "long" = "long",
): string {
  const options: Intl.DateTimeFormatOptions = { timeZone };
  if (interval === "month") {
    options.month = style === "short" ? "short" : "long";
    options.year = "numeric";
  } else {
    options.month = "short";
    options.day = "numeric";
    if (style === "long") {
      options.weekday = "short";
      options.year = "numeric";
    }
  }
  if (interval === "hour" || interval === "minute" || interval === "second") {
    options.hour = "numeric";
    options.minute = "2-digit";
    if (interval === "second") options.second = "2-digit";
  }
  const text = new Intl.DateTimeFormat(undefined, options).format(at);
  return interval === "week" && style === "long" ? `Week of ${text}` : text;
}

const plurals = new Intl.PluralRules("en");

/// As in `count(2, "event")` → "2 events".
export function count(value: number, one: string, many = `${one}s`): string {
  return `${exact(value)} ${plurals.select(value) === "one" ? one : many}`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/// As in "1.5 GiB": binary units, as the server's settings have them.
export function bytes(value: number): string {
  let [amount, unit] = [Math.abs(value), 0];
  while (amount >= 1_023.5 && unit < BYTE_UNITS.length - 1) {
    amount /= 1_024;
    unit += 1;
  }
  const rounded = unit === 0 || amount >= 99.5 ? Math.round(amount) : Math.round(amount * 10) / 10;
  return `${value < 0 ? "−" : ""}${EXACT.format(rounded)} ${BYTE_UNITS[unit]}`;
}
