import { describe, expect, it } from "vitest";
import { zonedTime } from "@/insights/zones";
import { inputsOf, parseRange, rangeOfDates } from "./parse";
import { draggedRange, rangeLabel, shiftedDays, shiftedRange, suggestedInterval } from "./range";

describe("ranges", () => {
  it("are read from text", () => {
    for (const [text, range] of [
      ["-14d", { date_from: "-14d" }],
      ["14d", { date_from: "-14d" }],
      [" -6 m", { date_from: "-6m" }],
      ["last 3 weeks", { date_from: "-3w" }],
      ["Yesterday", { date_from: "-1dStart", date_to: "-1dEnd" }],
      ["mStart", { date_from: "mStart" }],
      ["2026-03-01", { date_from: "2026-03-01" }],
      ["2026-03-01 to now", { date_from: "2026-03-01" }],
    ] as const) {
      expect(parseRange(text), text).toEqual(range);
    }
    const days = { date_from: "2026-11-01", date_to: "2026-11-14" };
    for (const text of [
      "2026-11-01 to 2026-11-14",
      "2026-11-01..2026-11-14",
      "2026-11-01 2026-11-14",
      "2026-11-14 to 2026-11-01",
    ]) {
      expect(parseRange(text), text).toEqual(days);
    }
    expect(parseRange("2026-11-01 10:00 to 2026-11-02")).toEqual({
      date_from: "2026-11-01T10:00",
      date_to: "2026-11-02T23:59:59",
      explicitDate: true,
    });
    for (const text of ["", "soon", "2026-13-99", "a to b to c", "1 2 3", "99999d"]) {
      expect(parseRange(text), text).toBeNull();
    }
  });

  it("have labels and intervals", () => {
    const label = (date_from?: string, date_to?: string) =>
      rangeLabel({ date_from, date_to }, "Europe/Berlin");
    expect(label()).toBe("Last 7 days");
    expect(rangeLabel({}, "UTC", "Own ranges")).toBe("Own ranges");
    expect(label("-3w")).toBe("Last 3 weeks");
    expect(label("-1mStart", "-1mEnd")).toBe("Last month");
    expect(label("2026-11-01")).toBe("Since Nov 1, 2026");
    expect(label("all", "2026-11-14")).toBe("Until Nov 14, 2026");
    expect(label("2026-11-14", "2026-11-14")).toBe("Nov 14, 2026");
    expect(label("2026-11-01", "2026-11-14")).toMatch(/^Nov 1\s–\s14, 2026$/);
    expect(label("2026-11-01T22:30:00Z")).toMatch(/^Since Nov 1, 2026, 11:30\sPM$/);
    expect(label("2026-11-01Z", "soon")).toContain("soon");
    expect(suggestedInterval({ date_from: "-24h" })).toBe("hour");
    expect(suggestedInterval({ date_from: "-30d" })).toBe("day");
    expect(suggestedInterval({ date_from: "-1y" })).toBe("week");
    expect(suggestedInterval({ date_from: "all" })).toBe("week");
  });

  it("are whole days unless an end has a time", () => {
    expect(rangeOfDates("2026-11-01", "")).toEqual({ date_from: "2026-11-01" });
    expect(rangeOfDates("", "2026-11-14")).toEqual({ date_from: "all", date_to: "2026-11-14" });
    const timed = rangeOfDates("2026-11-01", "2026-11-01T12:30");
    expect(timed).toEqual({
      date_from: "2026-11-01T00:00:00",
      date_to: "2026-11-01T12:30",
      explicitDate: true,
    });
    expect(inputsOf(timed.date_to, "UTC")).toEqual({ date: "2026-11-01", time: "12:30" });
    expect(inputsOf("2026-11-01T23:00:00Z", "Europe/Berlin")).toEqual({
      date: "2026-11-02",
      time: "00:00:00",
    });
    expect(inputsOf("-7d", "UTC")).toEqual({ date: "", time: "" });
  });

  it("are dragged and shifted in the project's zone", () => {
    const zone = "Pacific/Auckland";
    const from = zonedTime("2026-11-03", zone);
    const to = zonedTime("2026-11-05", zone);
    expect(draggedRange(from, to, "day", zone)).toEqual({
      date_from: "2026-11-03",
      date_to: "2026-11-05",
    });
    expect(draggedRange(from, from, "month", zone).date_to).toBe("2026-11-30");
    expect(draggedRange(from, from, "hour", zone)).toEqual({
      date_from: "2026-11-03T00:00:00",
      date_to: "2026-11-03T00:59:59",
      explicitDate: true,
    });
    const resolved = { date_from: "2026-11-01T00:00:00Z", date_to: "2026-11-07T23:59:59.999Z" };
    expect(shiftedRange(resolved, -1, "UTC")).toEqual({
      date_from: "2026-10-25",
      date_to: "2026-10-31",
    });
  });

  it("shift by their own length where no server resolved them", () => {
    const march = { date_from: "2026-03-08", date_to: "2026-03-14" };
    expect(shiftedDays(march, -1, "2026-03-20")).toEqual({
      date_from: "2026-03-01",
      date_to: "2026-03-07",
    });
    expect(shiftedDays({ date_from: "-7d" }, -1, "2026-03-20")).toEqual({
      date_from: "2026-03-05",
      date_to: "2026-03-12",
    });
    expect(
      shiftedDays({ date_from: "2026-03-01", date_to: "2026-03-07" }, 1, "2026-03-20"),
    ).toEqual(march);
    expect(shiftedDays({ date_from: "mStart" }, 1, "2026-03-20")).toBeNull();
  });
});
