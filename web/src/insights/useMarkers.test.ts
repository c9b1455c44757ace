import { expect, it } from "vitest";
import { isShownOn, merged } from "./useMarkers";

const HOUR_MS = 3_600_000;

it("notes of one insight or dashboard stay off other charts", () => {
  const note = (scope: "project" | "dashboard" | "dashboard_item") => ({
    scope,
    dashboard_id: scope === "dashboard" ? 7 : null,
    dashboard_item: scope === "dashboard_item" ? 3 : null,
  });
  const shown = (place: Parameters<typeof isShownOn>[1]) =>
    (["project", "dashboard", "dashboard_item"] as const).map((scope) =>
      isShownOn(note(scope), place),
    );
  expect(shown({})).toEqual([true, false, false]);
  expect(shown({ insightId: 3, dashboardIds: [8] })).toEqual([true, false, true]);
  expect(shown({ insightId: 4, dashboardIds: [6, 7] })).toEqual([true, true, false]);
});

it("changes within an hour are one marker, of one kind", () => {
  const flag = (at: number, label: string) => ({ at, kind: "flag" as const, label });
  const note = { at: HOUR_MS / 2, kind: "annotation" as const, label: "note" };
  expect(merged([flag(0, "a"), flag(HOUR_MS / 4, "b"), note, flag(2 * HOUR_MS, "c")])).toEqual([
    { ...flag(0, "a"), label: "a, and 1 more" },
    note,
    flag(2 * HOUR_MS, "c"),
  ]);
});
