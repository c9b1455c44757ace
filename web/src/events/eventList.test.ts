import { describe, expect, it } from "vitest";
import { type Event, type EventPage, eventParameters, mergeNewer, pageStart } from "./eventList";

function event(id: string, second: number): Event {
  return {
    id,
    event: "signed up",
    distinct_id: "u1",
    properties: {},
    elements: [],
    elements_chain: "",
    timestamp: `2026-03-01T10:00:0${second}.000000+00:00`,
  };
}

const NEXT = { before: "2026-03-01T10:00:01+00:00", cursor: "x" };

function page(...events: Event[]): EventPage {
  return { events, next: NEXT };
}

describe("mergeNewer", () => {
  it("puts new events at the top and a late one where it belongs", () => {
    const loaded = [page(event("c", 3), event("a", 1))];
    const merged = mergeNewer(loaded, page(event("d", 4), event("c", 3), event("b", 2)));
    expect(merged[0]?.events.map(({ id }) => id)).toEqual(["d", "c", "b", "a"]);
    expect(merged[0]?.next).toEqual(NEXT);
  });

  it("keeps the rows when nothing is new", () => {
    const loaded = [page(event("a", 1))];
    expect(mergeNewer(loaded, page(event("a", 1)))).toBe(loaded);
  });

  it("starts again when events between the two may be missing", () => {
    const merged = mergeNewer([page(event("a", 1)), page()], page(event("d", 4), event("c", 3)));
    expect(merged.map((part) => part.events.map(({ id }) => id))).toEqual([["d", "c"]]);
  });
});

describe("pageStart", () => {
  it("reads the position of the next page", () => {
    const next =
      "http://h/api/projects/1/events/?before=2026-03-01T10%3A00%3A00%2B00%3A00&cursor=1.a";
    expect(pageStart(next)).toEqual({
      after: undefined,
      before: "2026-03-01T10:00:00+00:00",
      cursor: "1.a",
    });
    expect(pageStart(null)).toBeNull();
  });
});

describe("eventParameters", () => {
  it("writes filters as the API takes them", () => {
    const parameters = eventParameters({
      event: "signed up",
      properties: [{ key: "plan", value: ["pro"], operator: "exact", type: "event" }],
      order: "oldest",
    });
    expect(parameters.properties).toBe(
      '[{"key":"plan","value":["pro"],"operator":"exact","type":"event"}]',
    );
    expect(parameters.orderBy).toBe('["timestamp"]');
  });
});
