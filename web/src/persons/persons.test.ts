import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { activitySentence } from "./activitySentence";
import { personTable } from "./csv";
import { flagRows, servedFlags } from "./flagRows";
import { editText, parseValue, textFor, valueType } from "./propertyValue";
import { eventHint, timelineItems } from "./timeline";

function event(id: string, timestamp: string, properties = {}): Schemas["Event"] {
  return {
    id,
    timestamp,
    properties,
    distinct_id: "d",
    event: "e",
    elements: [],
    elements_chain: "",
  };
}

describe("the timeline", () => {
  it("groups events by day of the project's zone", () => {
    const events = [
      event("3", "2026-03-02T23:30:00Z"),
      event("2", "2026-03-02T22:30:00Z"),
      event("1", "2026-03-02T10:00:00Z"),
    ];
    const shape = (timeZone: string, complete = true) =>
      timelineItems(events, timeZone, complete).map((item) =>
        item.kind === "day" ? `${item.events}${item.more ? "+" : ""}` : item.key,
      );
    expect(shape("UTC")).toEqual(["3", "3", "2", "1"]);
    expect(shape("Europe/Berlin")).toEqual(["1", "3", "2", "2", "1"]);
    expect(shape("Europe/Berlin", false)).toEqual(["1", "3", "2+", "2", "1"]);
    expect(shape("Asia/Kathmandu")).toEqual(["2", "3", "2", "1", "1"]);
  });

  it("tells events of one name apart", () => {
    expect(eventHint(event("1", "", { $pathname: "/cart", plan: "pro" }))).toBe("/cart");
    expect(eventHint(event("1", "", { $lib: "web", amount: 12, plan: "pro" }))).toBe(
      "amount: 12 · plan: pro",
    );
    expect(eventHint(event("1", "", { $feature_flag: "new", $feature_flag_response: false }))).toBe(
      "new: false",
    );
  });
});

describe("values of properties", () => {
  it.each([["text"], [""], [12.5], [true], [null], [{ a: [1, "x"] }], [[1, 2]]])(
    "keep %j through an edit",
    (value) => {
      expect(parseValue(valueType(value), editText(value))).toEqual({ value });
    },
  );

  it("are refused where the text does not fit the type", () => {
    expect(parseValue("number", "12 apples")).toHaveProperty("error");
    expect(parseValue("number", " ")).toHaveProperty("error");
    expect(parseValue("json", "{")).toHaveProperty("error");
    expect(parseValue("text", "12")).toEqual({ value: "12" });
  });

  it("are carried over to another type where that makes sense", () => {
    expect(textFor("json", "plain")).toBe('"plain"');
    expect(textFor("json", "12")).toBe("12");
    expect(textFor("boolean", "anything")).toBe("true");
    expect(textFor("null", "anything")).toBe("");
  });
});

it("flags show what was served beside what would be now", () => {
  const served = servedFlags([
    ["new-cart", "control", "2026-01-02T00:00:00Z", '{"company":"acme"}'],
    ["gone", "true", "2026-01-01T00:00:00Z", null],
  ]);
  expect(served.groups).toEqual({ company: "acme" });
  const evaluation = { reason: "condition_match", description: "Matched" };
  const rows = flagRows(
    [
      { id: 1, key: "idle" },
      { id: 2, key: "new-cart" },
    ],
    served.rows,
    { "new-cart": { value: "test", evaluation }, idle: { value: false, evaluation } },
  );
  expect(
    rows.map(({ key, id, served: was, now, differs }) => [key, id, was, now, differs]),
  ).toEqual([
    ["new-cart", 2, "control", "test", true],
    ["gone", null, true, undefined, false],
    ["idle", 1, undefined, false, false],
  ]);
});

it("the CSV has a column for each property of any person", () => {
  const person = (uuid: string, properties: Record<string, unknown>) =>
    ({ uuid, name: uuid, distinct_ids: ["a", "b"], created_at: "t", properties }) as Parameters<
      typeof personTable
    >[0][number];
  expect(
    personTable([person("1", { plan: "pro" }), person("2", { seats: 3, tags: ["x"] })]),
  ).toEqual({
    columns: ["id", "name", "distinct_ids", "created_at", "plan", "seats", "tags"],
    rows: [
      ["1", "1", "a b", "t", "pro", null, null],
      ["2", "2", "a b", "t", null, 3, '["x"]'],
    ],
  });
});

it("activity reads as sentences", () => {
  const entry = (activity: string, changes: object[]) =>
    ({ activity, detail: { changes } }) as unknown as Schemas["Entry"];
  const split = [{ after: { distinct_ids: ["a", "b", "c", "d"] } }];
  expect(activitySentence(entry("split_person", split), "person")).toBe(
    "split a, b, c and 1 more off this person",
  );
  expect(activitySentence(entry("updated", [{ field: "name" }]), "cohort")).toBe(
    "changed name of this cohort",
  );
});
