import { describe, expect, it } from "vitest";
import {
  bytes,
  compact,
  count,
  duration,
  elapsed,
  exact,
  intervalLabel,
  percent,
  relativeTime,
} from "./format";

describe("numbers", () => {
  it("are exact in tables and compact on axes", () => {
    expect(exact(1_234_567.891)).toBe("1,234,567.89");
    expect(compact(999)).toBe("999");
    expect(compact(12_345)).toBe("12.3K");
    expect(compact(-2_000_000)).toBe("-2M");
    expect(percent(0.1234)).toBe("12.3%");
  });

  it("agree with their noun", () => {
    expect(count(1, "event")).toBe("1 event");
    expect(count(0, "event")).toBe("0 events");
    expect(count(2, "person", "persons")).toBe("2 persons");
  });
});

describe("durations", () => {
  it.each([
    [0, "0 s"],
    [0.25, "0.25 s"],
    [59.6, "1 min"],
    [61, "1 min 1 s"],
    [3_600, "1 h"],
    [7_500, "2 h 5 min"],
    [90_000, "1 d 1 h"],
    [-65, "−1 min 5 s"],
  ])("%d seconds are %s", (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });
});

describe("times", () => {
  const now = new Date("2026-11-18T12:00:00Z");

  it.each([
    ["2026-11-18T11:59:30Z", "just now"],
    ["2026-11-18T11:57:00Z", "3 minutes ago"],
    ["2026-11-17T10:00:00Z", "yesterday"],
    ["2025-11-01T00:00:00Z", "last year"],
    ["2026-11-18T14:00:00Z", "in 2 hours"],
  ])("%s is %s", (at, text) => {
    expect(relativeTime(new Date(at), now)).toBe(text);
  });

  it("are named in the project's zone, also where days do not begin on the hour of UTC", () => {
    const midnight = new Date("2026-11-17T18:15:00Z");
    expect(intervalLabel(midnight, "day", "Asia/Kathmandu")).toBe("Wed, Nov 18, 2026");
    expect(intervalLabel(midnight, "day", "UTC", "short")).toBe("Nov 17");
    expect(intervalLabel(midnight, "hour", "Asia/Kathmandu", "short")).toContain("12:00");
  });

  it("name weeks by their first day and months by name", () => {
    const start = new Date("2026-11-01T00:00:00Z");
    expect(intervalLabel(start, "week", "UTC")).toBe("Week of Sun, Nov 1, 2026");
    expect(intervalLabel(start, "month", "UTC")).toBe("November 2026");
  });

  it("keep both hours of a clock that is set back", () => {
    const first = intervalLabel(new Date("2026-10-25T00:00:00Z"), "hour", "Europe/Berlin");
    const second = intervalLabel(new Date("2026-10-25T01:00:00Z"), "hour", "Europe/Berlin");
    expect(first).toBe(second);
    expect(first).toContain("2:00");
  });
});

describe("the time that something took", () => {
  it("is whole milliseconds, and seconds from one on", () => {
    expect([0, 0.0004, 0.0517, 0.9994, 1.26, 12].map(elapsed)).toEqual([
      "1 ms",
      "1 ms",
      "52 ms",
      "999 ms",
      "1.3 s",
      "12 s",
    ]);
  });
});

describe("bytes", () => {
  it("takes the unit that keeps the number short", () => {
    expect([0, 999, 1_024, 1_600_000, 17_179_869_184, 1_048_575, -2_048].map(bytes)).toEqual([
      "0 B",
      "999 B",
      "1 KiB",
      "1.5 MiB",
      "16 GiB",
      "1 MiB",
      "−2 KiB",
    ]);
  });
});
