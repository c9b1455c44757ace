import { expect, it } from "vitest";
import { soFarQuery, todayQuery, todaySums } from "./today";

it("today is compared with last week up to the same time", () => {
  const at = new Date("2026-03-04T09:30:00Z");
  const query = soFarQuery(todayQuery("dau", "$pageview"), at);
  expect(query.dateRange).toEqual({
    date_from: "dStart",
    date_to: "2026-03-04T09:30:00.000Z",
    explicitDate: true,
  });
  expect(query.interval).toBe("day");
  expect(query.compareFilter).toEqual({ compare: true, compare_to: "-7d" });
});

it("sums are taken by their labels", () => {
  const results = [
    { compare_label: "previous", data: [10, null] },
    { compare_label: "current", data: [1, 5] },
  ] satisfies Parameters<typeof todaySums>[0];
  expect(todaySums(results)).toEqual({ now: 6, before: 10 });
  expect(todaySums(null)).toEqual({ now: 0, before: 0 });
});
