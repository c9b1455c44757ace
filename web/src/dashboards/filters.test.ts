import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { eventsOf } from "./answers";
import {
  DashboardSearch,
  effectiveSearch,
  filtersOf,
  hasFilters,
  reachesNow,
  readBreakdown,
  searchOf,
  writeBreakdown,
} from "./filters";

const browser = {
  key: "$browser",
  value: ["Chrome"],
  operator: "exact" as const,
  type: "event" as const,
};

describe("filters in the URL", () => {
  it("survive the way to the API and back", () => {
    const search: DashboardSearch = {
      date_from: "-14d",
      date_to: undefined,
      interval: "week",
      properties: [browser],
      breakdown: "person:plan",
    };
    expect(searchOf(filtersOf(search, {}))).toEqual(search);
  });

  it("drop what is wrong, so that an old link opens", () => {
    const search = v.parse(DashboardSearch, {
      interval: "second",
      properties: "x",
      date_from: 2026,
      breakdown: ["a"],
    });
    expect(search).toEqual({ date_from: "2026" });
  });

  it("win over the saved ones, the range as a whole", () => {
    const saved = { date_from: "2026-01-01", date_to: "2026-02-01", interval: "month" } as const;
    expect(effectiveSearch({ date_from: "-7d" }, saved)).toMatchObject({
      date_from: "-7d",
      date_to: undefined,
      interval: "month",
    });
    expect(filtersOf({ date_from: "-7d" }, saved)).toEqual({ date_from: "-7d", interval: "month" });
  });

  it("keep saved filters that have no form in the URL", () => {
    const saved = {
      properties: { type: "OR" as const, values: [browser] },
      explicitDate: true,
    };
    expect(filtersOf({ date_from: "-7d" }, saved)).toEqual({ ...saved, date_from: "-7d" });
  });

  it("take a saved breakdown or filter away when empty", () => {
    const saved = { breakdown_filter: { breakdown: "$browser" }, properties: [browser] };
    expect(filtersOf({ breakdown: "", properties: [] }, saved)).toEqual({});
  });

  it("are absent from a plain address", () => {
    expect(hasFilters({})).toBe(false);
    expect(hasFilters({ breakdown: "" })).toBe(true);
  });
});

it("breakdowns of persons are told from those of events", () => {
  for (const text of ["$browser", "person:plan"]) {
    const read = readBreakdown(text);
    expect(read && writeBreakdown(read)).toBe(text);
  }
  expect(readBreakdown("")).toBeNull();
});

it("a range that ended does not follow new events", () => {
  const now = new Date("2026-03-04T12:00:00Z");
  expect(reachesNow(null, now)).toBe(true);
  expect(reachesNow("2026-03-04", now)).toBe(true);
  expect(reachesNow("2026-03-01", now)).toBe(false);
  expect(reachesNow("-1d", now)).toBe(false);
});

it("a query names the events it counts, unless it counts any", () => {
  const series = (event: string | null) => ({ kind: "EventsNode", event });
  const query = (...nodes: object[]) => ({
    kind: "InsightVizNode",
    source: { kind: "TrendsQuery", series: nodes },
  });
  expect(eventsOf(query(series("a"), series("b"), series("a")))).toEqual(["a", "b"]);
  expect(eventsOf(query(series("a"), series(null)))).toBeNull();
  expect(eventsOf(query({ kind: "ActionsNode", id: 1 }))).toBeNull();
  expect(eventsOf({ kind: "HogQLQuery", query: "select 1" })).toBeNull();
});
