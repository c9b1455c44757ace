/// The steps of an action: which of their conditions are given, and the same conditions as property
/// filters, to show matching events before the action is saved.

import type { Schemas } from "@/api/client";
import { completeFilters, describeFilter, eventLabel } from "@/filters/operators";
import { type FilterGroup, isGroup, type PropertyFilter } from "@/filters/types";

export type Step = Schemas["ActionStep"];
export type Matching = Schemas["StringMatching"];

/// Conditions of a step beside its event and its property filters.
export const CONDITIONS = [
  { key: "url", label: "URL", placeholder: "/checkout", matching: "url_matching" },
  { key: "text", label: "Element text", placeholder: "Buy now", matching: "text_matching" },
  { key: "href", label: "Link target", placeholder: "/pricing", matching: "href_matching" },
  { key: "tag_name", label: "HTML tag", placeholder: "button", matching: null },
  { key: "selector", label: "CSS selector", placeholder: "form > button.buy", matching: null },
] as const;

export type ConditionKey = (typeof CONDITIONS)[number]["key"];

export const MATCHINGS: readonly { value: Matching; label: string }[] = [
  { value: "exact", label: "is exactly" },
  { value: "contains", label: "contains" },
  { value: "regex", label: "matches the regular expression" },
];

/// As the server reads a condition without one.
export function matchingOf(step: Step, key: "url" | "text" | "href"): Matching {
  return step[`${key}_matching`] ?? (key === "url" ? "contains" : "exact");
}

function given(text: string | null | undefined): text is string {
  return typeof text === "string" && text !== "";
}

/// A step as it is saved: without empty conditions and unfinished filters.
export function cleanStep(step: Step): Step {
  const clean: Step = {};
  if (given(step.event)) clean.event = step.event;
  for (const { key, matching } of CONDITIONS) {
    if (!given(step[key])) continue;
    clean[key] = step[key];
    if (matching) clean[matching] = matchingOf(step, key);
  }
  const properties = completeFilters(step.properties);
  if (Array.isArray(properties) && properties.length > 0) clean.properties = properties;
  return clean;
}

export function cleanSteps(steps: readonly Step[]): Step[] {
  return steps.map(cleanStep);
}

const REGEX_SPECIAL = /[\\^$.*+?()[\]{}|/-]/g;

function pattern(text: string, matching: Matching): Pick<PropertyFilter, "operator" | "value"> {
  // `icontains` would ignore the case, which steps do not.
  if (matching === "contains")
    return { operator: "regex", value: text.replace(REGEX_SPECIAL, "\\$&") };
  return { operator: matching, value: matching === "exact" ? [text] : text };
}

/// The conditions of a step that must hold of the same element.
const OF_ELEMENT = ["text", "href", "tag_name"] as const;

/// The steps as one group of property filters; null where no filter says the same. Filters of elements
/// may each match another one, those of a step must match the same; there is none for selectors.
export function stepFilters(steps: readonly Step[]): FilterGroup | null {
  const groups: FilterGroup[] = [];
  for (const step of cleanSteps(steps)) {
    const ofElement = OF_ELEMENT.filter((key) => given(step[key])).length;
    if (ofElement > 1 || given(step.selector)) return null;
    const values: FilterGroup["values"] = [];
    if (given(step.event)) {
      values.push({ type: "event_metadata", key: "event", operator: "exact", value: [step.event] });
    }
    if (given(step.url)) {
      values.push({
        type: "event",
        key: "$current_url",
        ...pattern(step.url, matchingOf(step, "url")),
      });
    }
    for (const key of ["text", "href"] as const) {
      const text = step[key];
      if (given(text))
        values.push({ type: "element", key, ...pattern(text, matchingOf(step, key)) });
    }
    if (given(step.tag_name)) {
      values.push({ type: "element", key: "tag_name", operator: "exact", value: [step.tag_name] });
    }
    values.push(...((step.properties ?? []) as FilterGroup["values"]));
    // A step without conditions matches every event.
    if (values.length === 0) return { type: "AND", values: [] };
    groups.push({ type: "AND", values });
  }
  return { type: "OR", values: groups };
}

/// The names of events that can match; null for all.
export function stepEvents(steps: readonly Step[]): string[] | null {
  const names = steps.map(({ event }) => event);
  return names.every(given) ? [...new Set(names.filter(given))] : null;
}

/// A step in words, for the list.
export function describeStep(step: Step): string {
  const parts = [step.event ? eventLabel(step.event) : "any event"];
  for (const { key, label } of CONDITIONS) {
    const text = step[key];
    if (!given(text)) continue;
    const how =
      key === "url" || key === "text" || key === "href"
        ? { exact: "is", contains: "contains", regex: "matches" }[matchingOf(step, key)]
        : "is";
    parts.push(`${label} ${how} “${text}”`);
  }
  for (const filter of step.properties ?? []) {
    if (!isGroup(filter)) parts.push(describeFilter(filter as PropertyFilter));
  }
  return parts.length === 1
    ? (parts[0] as string)
    : `${parts[0]} where ${parts.slice(1).join(" and ")}`;
}
