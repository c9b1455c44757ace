import { describe, expect, it } from "vitest";
import {
  type Condition,
  type ConditionGroup,
  completeConditions,
  conditionsOf,
  filtersOf,
  incompleteCount,
  isNegated,
  readDraft,
  withNegation,
} from "./conditions";
import { DRAFT_CODEC } from "./draftCodec";
import { readList } from "./personList";

const pro: Condition = { type: "person", key: "plan", operator: "exact", value: ["pro"] };
const open: Condition = { type: "person", key: "email", operator: "exact", value: [] };
const paid: Condition = {
  type: "behavioral",
  key: "order paid",
  event_type: "events",
  value: "performed_event_multiple",
  operator: "gte",
  operator_value: 3,
  time_value: 30,
  time_interval: "day",
};
const all: ConditionGroup = { type: "AND", values: [pro, paid] };

describe("conditions of a cohort", () => {
  it("are stored as groups of groups, and read back as they were", () => {
    expect(filtersOf(all)).toEqual({ properties: { type: "OR", values: [all] } });
    expect(conditionsOf(filtersOf(all))).toEqual(all);
    const either: ConditionGroup = { type: "OR", values: [all, { type: "AND", values: [pro] }] };
    expect(filtersOf(either)).toEqual({ properties: either });
    expect(conditionsOf(filtersOf(either))).toEqual(either);
    expect(conditionsOf(null)).toEqual({ type: "AND", values: [] });
  });

  it("go through the URL unchanged", () => {
    const draft = { name: "50 % & more", description: "ümlaut #1", conditions: all };
    expect(DRAFT_CODEC.decode(`#${DRAFT_CODEC.encode(draft)}`)).toEqual(draft);
    expect(readDraft({ name: "x" })).toBeNull();
    expect(DRAFT_CODEC.decode("#q=[1]")).toBeNull();
  });

  it("are counted without what is still being written", () => {
    const never = { ...paid, operator_value: null };
    const draft: ConditionGroup = {
      type: "AND",
      values: [pro, open, { type: "OR", values: [open, never] }],
    };
    expect(completeConditions(draft)).toEqual({ type: "AND", values: [pro] });
    expect(incompleteCount(draft)).toBe(3);
    expect(completeConditions({ type: "OR", values: [open] })).toBeNull();
    expect(
      completeConditions({ type: "AND", values: [{ ...paid, time_value: 10_000 }] }),
    ).toBeNull();
  });

  it("know both ways to say not", () => {
    const outside: Condition = { type: "cohort", key: "id", value: 4, operator: "not_in" };
    expect(isNegated(outside)).toBe(true);
    expect(isNegated({ ...outside, negation: true })).toBe(false);
    expect(isNegated(withNegation(outside, false))).toBe(false);
    expect(isNegated(withNegation(outside, true))).toBe(true);
    expect(isNegated({ ...paid, negation: true })).toBe(true);
  });
});

describe("lists of persons", () => {
  it.each([
    ["u1\nu2, u3;u1\n", "distinct_id", ["u1", "u2", "u3"]],
    ["email\r\nA@b.c\r\n", "email", ["A@b.c"]],
    ['name,Distinct-ID\nA,u1\n"B, C","u""2"\n', "distinct_id", ["u1", 'u"2']],
    ["\ufeffperson_id,email\nAB-1,a@b.c\n", "person_id", ["ab-1"]],
    ['"a\nb"', "distinct_id", ["a\nb"]],
  ] as const)("are read from %j", (text, kind, ids) => {
    expect(readList(text, "distinct_id")).toEqual({ kind, ids });
  });

  it("say what is wrong with them", () => {
    expect(readList("a,b\n1,2\n", "distinct_id", true)).toHaveProperty("error");
    expect(readList('distinct_id\n"u1', "distinct_id")).toHaveProperty("error");
    expect(readList(" \n", "email")).toEqual({ kind: "email", ids: [] });
  });
});
