/// The conditions of a cohort as they are edited, and as the API takes them.

import type { Schemas } from "@/api/client";
import { isComplete } from "@/filters/operators";
import type { PropertyFilter } from "@/filters/types";

export type Condition = Schemas["CohortCondition"];
/// A group as it is edited: always with a type and values.
export interface ConditionGroup {
  type: Schemas["LogicalOperator"];
  values: (Condition | ConditionGroup)[];
}
export type TimeUnit = Schemas["TimeInterval"];

export interface CohortDraft {
  name: string;
  description: string;
  conditions: ConditionGroup;
}

export function isGroup<Group extends Schemas["CohortConditionGroup"] | ConditionGroup>(
  one: Condition | Group,
): one is Group {
  const { type } = one;
  return type === undefined || type === null || type === "AND" || type === "OR";
}

/// The stored conditions as a group. PostHog wraps a group of OR in another, which says nothing.
export function conditionsOf(filters: Schemas["CohortFilters"] | null | undefined): ConditionGroup {
  const root = filters?.properties;
  return root ? unwrapped(normalized(root)) : { type: "AND", values: [] };
}

function normalized(group: Schemas["CohortConditionGroup"]): ConditionGroup {
  return {
    type: group.type ?? "AND",
    values: (group.values ?? []).map((value) => (isGroup(value) ? normalized(value) : value)),
  };
}

function unwrapped(group: ConditionGroup): ConditionGroup {
  const [only, ...others] = group.values;
  return only && others.length === 0 && isGroup(only) ? unwrapped(only) : group;
}

/// The form that clients of PostHog expect: a group of groups.
export function filtersOf(conditions: ConditionGroup): Schemas["CohortFilters"] {
  const values = conditions.values;
  const properties =
    values.length > 0 && values.every(isGroup)
      ? conditions
      : { type: "OR" as const, values: [conditions] };
  return { properties };
}

/// A condition with an own meaning of "not": an operator `not_in` is a negation as well.
export function isNegated({ negation, operator, type }: Condition): boolean {
  return (negation ?? false) !== (type !== "behavioral" && operator === "not_in");
}

export function withNegation(condition: Condition, negated: boolean): Condition {
  const next = { ...condition, negation: negated };
  return next.operator === "not_in" ? { ...next, operator: "in" } : next;
}

export function personCondition(filter: PropertyFilter, before?: Condition): Condition {
  const { key, operator, value } = filter;
  return {
    type: "person",
    key,
    operator: operator as Condition["operator"],
    value,
    negation: before?.negation ?? false,
  };
}

export function cohortCondition(id: number): Condition {
  return { type: "cohort", key: "id", value: id, negation: false };
}

export function eventCondition(
  event: { kind: "event"; event: string } | { kind: "action"; id: number },
): Condition {
  return {
    type: "behavioral",
    ...eventKey(event),
    value: "performed_event",
    time_value: 30,
    time_interval: "day",
    negation: false,
  };
}

export function eventKey(
  event: { kind: "event"; event: string } | { kind: "action"; id: number },
): Pick<Condition, "event_type" | "key"> {
  return event.kind === "event"
    ? { event_type: "events", key: event.event }
    : { event_type: "actions", key: event.id };
}

/// A condition as a property filter, for the inputs that edit those.
export function asFilter({ key, operator, value }: Condition): PropertyFilter {
  return { type: "person", key, operator: operator as PropertyFilter["operator"], value };
}

/// The most that the API counts.
const TIMES_MAX = 1_000_000;
const TIME_MAX = 9_999;

function whole(value: unknown, max: number): boolean {
  const number = Number(value);
  return Number.isInteger(number) && number >= 1 && number <= max;
}

function isCompleteCondition(condition: Condition): boolean {
  switch (condition.type) {
    case "behavioral":
      return (
        condition.key !== null &&
        condition.key !== undefined &&
        condition.key !== "" &&
        (condition.explicit_datetime ? true : whole(condition.time_value, TIME_MAX)) &&
        (condition.value !== "performed_event_multiple" ||
          whole(condition.operator_value, TIMES_MAX))
      );
    case "person":
      return isComplete(asFilter(condition));
    default:
      return Number.isInteger(Number(condition.value)) && condition.value !== null;
  }
}

/// The conditions without those that are still being written; null where none is left.
export function completeConditions(group: ConditionGroup): ConditionGroup | null {
  const values: ConditionGroup["values"] = [];
  for (const value of group.values) {
    const complete = isGroup(value)
      ? completeConditions(value)
      : isCompleteCondition(value as Condition) && value;
    if (complete) values.push(complete);
  }
  return values.length > 0 ? { ...group, values } : null;
}

/// How many conditions are still being written.
export function incompleteCount(group: ConditionGroup): number {
  return group.values.reduce(
    (sum, value) =>
      sum + (isGroup(value) ? incompleteCount(value) : isCompleteCondition(value) ? 0 : 1),
    0,
  );
}

/// A draft from the URL, if it is one.
export function readDraft(value: unknown): CohortDraft | null {
  if (typeof value !== "object" || value === null) return null;
  const { name, description, conditions } = value as Partial<CohortDraft>;
  if (typeof conditions !== "object" || conditions === null) return null;
  if (!Array.isArray(conditions.values)) return null;
  return {
    name: typeof name === "string" ? name : "",
    description: typeof description === "string" ? description : "",
    conditions: normalized(conditions),
  };
}
