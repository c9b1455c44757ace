import { expect, it } from "vitest";
import { cleanSteps, describeStep, stepEvents, stepFilters } from "./steps";

it("leaves out what is empty or not finished", () => {
  expect(
    cleanSteps([
      { event: "order paid", url: "", text: null, properties: [{ key: "plan", type: "event" }] },
      { event: "", url: "/buy", selector: "" },
    ]),
  ).toEqual([{ event: "order paid" }, { url: "/buy", url_matching: "contains" }]);
});

it("states the steps as filters that mean the same", () => {
  expect(
    stepFilters([
      { event: "$pageview", url: "/a.b" },
      { event: "$autocapture", text: "Buy" },
    ]),
  ).toEqual({
    type: "OR",
    values: [
      {
        type: "AND",
        values: [
          { type: "event_metadata", key: "event", operator: "exact", value: ["$pageview"] },
          { type: "event", key: "$current_url", operator: "regex", value: "\\/a\\.b" },
        ],
      },
      {
        type: "AND",
        values: [
          { type: "event_metadata", key: "event", operator: "exact", value: ["$autocapture"] },
          { type: "element", key: "text", operator: "exact", value: ["Buy"] },
        ],
      },
    ],
  });
});

it("has no filters for several conditions on one element, nor for selectors", () => {
  expect(stepFilters([{ text: "Buy", tag_name: "button" }])).toBeNull();
  expect(stepFilters([{ selector: "button" }])).toBeNull();
  expect(stepFilters([{ tag_name: "button" }])).not.toBeNull();
});

it("matches everything where a step has no condition", () => {
  expect(stepFilters([{ event: "a" }, {}])).toEqual({ type: "AND", values: [] });
});

it("names the events that can match", () => {
  expect(stepEvents([{ event: "a" }, { event: "b" }, { event: "a" }])).toEqual(["a", "b"]);
  expect(stepEvents([{ event: "a" }, { url: "/" }])).toBeNull();
});

it("describes a step in words", () => {
  expect(describeStep({ event: "order paid", url: "/buy", tag_name: "a" })).toBe(
    "order paid where URL contains “/buy” and HTML tag is “a”",
  );
  expect(describeStep({})).toBe("any event");
});
