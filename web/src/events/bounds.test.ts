import { describe, expect, it } from "vitest";
import { boundsOf, rangeOf } from "./bounds";

describe("bounds of events", () => {
  it("are ranges and back", () => {
    for (const [bounds, range] of [
      [{}, { date_from: "all" }],
      [{ after: "-1h" }, { date_from: "-1h" }],
      [
        { after: "2026-11-01", before: "2026-12-01" },
        { date_from: "2026-11-01", date_to: "2026-11-30" },
      ],
      [{ before: "2026-11-01T10:00:00" }, { date_from: "all", date_to: "2026-11-01T10:00:00" }],
    ] as const) {
      expect(rangeOf(bounds)).toEqual(range);
      expect(boundsOf(range)).toEqual(bounds);
    }
  });
});
