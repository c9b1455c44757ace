import { describe, expect, it } from "vitest";
import type { Event } from "./eventList";
import { addToTail, EMPTY_TAIL, Rate, TAIL_ROWS_MAX, tailMatches } from "./tailBuffer";
import { tailPath } from "./tailStream";

function event(number: number): Event {
  return {
    id: String(number),
    event: "order placed",
    distinct_id: "Ann",
    properties: { plan: "Pro" },
    elements: [],
    elements_chain: "",
    timestamp: "2026-03-01T10:00:00+00:00",
  };
}

describe("addToTail", () => {
  it("puts the newest first and knows an event again", () => {
    const tail = addToTail(addToTail(EMPTY_TAIL, [event(1), event(2)], 0), [event(2), event(3)], 5);
    expect(tail.rows.map(({ id }) => id)).toEqual(["3", "2", "1"]);
    expect([tail.received, tail.missed]).toEqual([3, 5]);
  });

  it("keeps a bounded number of rows", () => {
    const many = Array.from({ length: TAIL_ROWS_MAX + 10 }, (_, number) => event(number));
    const tail = addToTail(EMPTY_TAIL, many, 0);
    expect(tail.rows).toHaveLength(TAIL_ROWS_MAX);
    expect(tail.received).toBe(TAIL_ROWS_MAX + 10);
  });
});

describe("Rate", () => {
  it("counts the last ten seconds, or the time since the start", () => {
    const rate = new Rate(0);
    rate.add(10, 500);
    expect(rate.perSecond(2_000)).toBe(5);
    rate.add(90, 9_000);
    expect(rate.perSecond(10_000)).toBe(9);
    expect(rate.perSecond(60_000)).toBe(0);
  });
});

describe("tailMatches", () => {
  it("looks at the name, the person and the properties", () => {
    expect(["ORDER", "ann", "pro", " "].map((text) => tailMatches(event(1), text))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(tailMatches(event(1), "team")).toBe(false);
  });
});

describe("tailPath", () => {
  it("names the stream by its filters", () => {
    expect(tailPath({ projectId: "1" })).toBe("/api/projects/1/events/live");
    expect(tailPath({ projectId: "1", event: "signed up", distinct_id: "a&b" })).toBe(
      "/api/projects/1/events/live?event=signed+up&distinct_id=a%26b",
    );
  });
});
