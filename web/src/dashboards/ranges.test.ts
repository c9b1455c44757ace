import { describe, expect, it } from "vitest";
import { rangeLabel, readRange, shiftRange } from "./ranges";

describe("ranges", () => {
  it("are named in words", () => {
    expect(rangeLabel(undefined, undefined)).toBe("Each insight's own range");
    expect(rangeLabel("-7d", undefined)).toBe("Last 7 days");
    expect(rangeLabel("-1mStart", "-1mEnd")).toBe("Last month");
    expect(rangeLabel("-3w", undefined)).toBe("Last 3 weeks");
    expect(rangeLabel("2026-03-01", "2026-03-09")).toContain("–");
  });

  it("are read as people type them", () => {
    expect(readRange("14d")).toEqual({ from: "-14d" });
    expect(readRange(" -6 m")).toEqual({ from: "-6m" });
    expect(readRange("2026-03-01..2026-03-09")).toEqual({ from: "2026-03-01", to: "2026-03-09" });
    expect(readRange("2026-03-09 to 2026-03-01")).toEqual({ from: "2026-03-01", to: "2026-03-09" });
    expect(readRange("2026-03-01")).toEqual({ from: "2026-03-01", to: undefined });
    for (const text of ["", "soon", "2026-13-01", "1 2 3", "99999d"]) {
      expect(readRange(text)).toBeNull();
    }
  });

  it("shift by their own length", () => {
    expect(shiftRange("2026-03-08", "2026-03-14", -1, "2026-03-20")).toEqual({
      from: "2026-03-01",
      to: "2026-03-07",
    });
    expect(shiftRange("-7d", undefined, -1, "2026-03-20")).toEqual({
      from: "2026-03-05",
      to: "2026-03-12",
    });
    expect(shiftRange("2026-03-01", "2026-03-07", 1, "2026-03-20")).toEqual({
      from: "2026-03-08",
      to: "2026-03-14",
    });
    expect(shiftRange("mStart", undefined, 1, "2026-03-20")).toBeNull();
  });
});
