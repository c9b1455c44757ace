const formats = new Map<string, Intl.DateTimeFormat>();

function formatFor(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(timeZone, format);
  }
  return format;
}

/// How far a zone's clocks are ahead of UTC at an instant.
function offsetMs(at: number, timeZone: string): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatFor(timeZone).formatToParts(at)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1_000) * 1_000;
}

/// A date or a date and time on a zone's clocks, as `2026-11-01` or `2026-11-01 14:00:00`, in
/// milliseconds since 1970. A time that a change of clocks skips becomes the one after.
export function zonedTime(text: string, timeZone: string): number {
  if (/(Z|[+-]\d\d:?\d\d)$/.test(text.slice(10))) return Date.parse(text);
  const [date = "", time = "00:00:00"] = text.split(/[T ]/);
  const wall = Date.parse(`${date}T${time.length === 5 ? `${time}:00` : time}Z`);
  if (Number.isNaN(wall)) return Number.NaN;
  const first = wall - offsetMs(wall, timeZone);
  return wall - offsetMs(first, timeZone);
}

/// The date on a zone's clocks, as native date inputs take it.
export function zonedDate(at: number, timeZone: string): string {
  return new Date(at + offsetMs(at, timeZone)).toISOString().slice(0, 10);
}

/// Date and time on a zone's clocks, as `2026-11-01T14:00:00`.
export function zonedDateTime(at: number, timeZone: string): string {
  return new Date(at + offsetMs(at, timeZone)).toISOString().slice(0, 19);
}

const STEP_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/// The starts of intervals from their labels. When clocks go back, an hour comes twice under one name.
export function intervalTimes(
  days: readonly (string | number)[],
  interval: string,
  timeZone: string,
): number[] {
  const step = STEP_MS[interval as keyof typeof STEP_MS] ?? STEP_MS.day;
  const times: number[] = [];
  for (const day of days) {
    const time = zonedTime(String(day), timeZone);
    const before = times.at(-1);
    times.push(before !== undefined && time <= before ? before + step : time);
  }
  return times;
}
