import { describe, expect, it } from "vitest";
import { completeFilters, describeFilter, operatorsFor, valueFor } from "./operators";
import { decodeProperty, encodeProperty } from "./PropertyPicker";
import { asGroup, compactFilters, countFilters, type Filters } from "./types";

describe("filters", () => {
  const browser = { key: "$browser", type: "event", operator: "exact", value: ["Chrome"] } as const;
  const open = { key: "plan", type: "person", operator: "exact", value: [] } as const;
  const filters = [{ ...browser, value: ["Chrome"] }] as Filters;

  it("keep a list a list, and a group of OR a group", () => {
    expect(compactFilters(asGroup(filters))).toEqual(filters);
    const either: Filters = { type: "OR", values: [...(filters as []), ...(filters as [])] };
    expect(compactFilters(asGroup(either))).toEqual(either);
    expect(compactFilters(asGroup(undefined))).toBeUndefined();
    expect(countFilters({ type: "AND", values: [either, ...(filters as [])] })).toBe(3);
  });

  it("leave out what is still being written", () => {
    const draft: Filters = {
      type: "AND",
      values: [
        { ...browser, value: ["Chrome"] },
        { ...open, value: [] },
        { type: "OR", values: [{ ...open, value: [] }] },
        { key: "", type: "hogql" },
        { key: "amount", operator: "between", value: [1, ""] },
      ],
    };
    expect(completeFilters(draft)).toEqual([browser]);
    expect(completeFilters([{ key: "email", operator: "is_set", value: null }])).toHaveLength(1);
  });

  it("keep a value where the new operator can take it", () => {
    expect(valueFor("icontains", ["Chrome", "Safari"])).toBe("Chrome");
    expect(valueFor("exact", "Chrome")).toEqual(["Chrome"]);
    expect(valueFor("gt", "12")).toBe("12");
    expect(valueFor("gt", "Chrome")).toBeNull();
    expect(valueFor("is_set", "Chrome")).toBeNull();
    expect(valueFor("between", ["1"])).toEqual([]);
  });

  it("read as sentences", () => {
    expect(describeFilter({ ...browser, value: ["Chrome", "Safari"] })).toBe(
      "Browser is Chrome or Safari",
    );
    expect(describeFilter({ key: "email", operator: "is_set" })).toBe("email is set");
    expect(describeFilter({ key: "amount", operator: "between", value: [1, 5] })).toBe(
      "amount is between 1 and 5",
    );
  });

  it("offer the operators of a type", () => {
    expect(operatorsFor("cohort", null, "id")).toEqual(["in", "not_in"]);
    expect(operatorsFor("element", null, "selector")).toEqual(["exact", "is_not"]);
    expect(operatorsFor("event", "Numeric", "amount")).toContain("between");
  });

  it("encode any property name", () => {
    for (const key of ["$browser", "a:b", "$feature/a b", ""]) {
      expect(decodeProperty(encodeProperty({ type: "group", key, groupIndex: 1 }))).toEqual({
        type: "group",
        key,
        groupIndex: 1,
      });
      expect(decodeProperty(encodeProperty({ type: "event", key }))).toEqual({
        type: "event",
        key,
      });
    }
  });
});
