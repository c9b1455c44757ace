/// What a change of a flag means, in sentences.

import { describeFilter, OPERATORS } from "@/filters/operators";
import { filterKey, type PropertyFilter } from "@/filters/types";
import { sameJson } from "@/shell/fragment";
import { exact } from "@/ui/format";
import type { FlagCondition, FlagFilters } from "../flagApi";
import { conditionsOf, type FlagDraft, KIND_LABELS, kindOf, rolloutOf, variantsOf } from "./draft";

/// Names of what conditions refer to by id.
export interface Names {
  cohort: (id: string) => string;
  /// A flag's key.
  flag: (id: string) => string;
  /// A type of group: "companies".
  groups: (index: number) => string;
  dashboard: (id: number) => string;
}

export const PLAIN_NAMES: Names = {
  cohort: (id) => `cohort ${id}`,
  flag: (id) => `flag ${id}`,
  groups: () => "groups",
  dashboard: (id) => `dashboard ${id}`,
};

export function filterSentence(filter: PropertyFilter, names: Names): string {
  if (filter.type === "cohort" || filter.type === "static-cohort") {
    const label = OPERATORS[filter.operator ?? "in"]?.label ?? "in cohort";
    return `${label} ${names.cohort(String(filter.value ?? ""))}`;
  }
  if (filter.type === "flag") {
    return `${names.flag(filterKey(filter))} evaluates to ${String(filter.value)}`;
  }
  if (filter.key === "$group_key") return describeFilter(filter).replace("$group_key", "key");
  return describeFilter(filter);
}

function subjectsOf({ aggregation_group_type_index: index }: FlagCondition, names: Names): string {
  return index === null || index === undefined ? "persons" : names.groups(index);
}

/// As in "50% of persons where plan is pro".
export function conditionSentence(condition: FlagCondition, names: Names): string {
  const filters = (condition.properties ?? []).map((filter) => filterSentence(filter, names));
  const who = subjectsOf(condition, names);
  const share = rolloutOf(condition);
  const all = share === 100 ? `all ${who}` : `${exact(share)}% of ${who}`;
  const where = filters.length > 0 ? ` where ${filters.join(" and ")}` : "";
  const variant = condition.variant ? `, who get ${condition.variant}` : "";
  return `${all}${where}${variant}`;
}

/// Pairs the conditions of two versions: equal ones first, the others in order.
function pairs(before: readonly FlagCondition[], after: readonly FlagCondition[]) {
  const partner = new Map<number, number>();
  const free = new Set(before.keys());
  after.forEach((condition, at) => {
    const equal = [...free].filter((from) => sameCondition(before[from], condition));
    const from = equal.includes(at) ? at : equal[0];
    if (from === undefined) return;
    partner.set(at, from);
    free.delete(from);
  });
  after.forEach((condition, at) => {
    if (partner.has(at)) return;
    const alike = [...free].find((from) => shareSomething(before[from], condition));
    const from = alike ?? (free.has(at) ? at : undefined);
    if (from === undefined) return;
    partner.set(at, from);
    free.delete(from);
  });
  return { partner, removed: [...free] };
}

function core({ properties, rollout_percentage, variant, ...rest }: FlagCondition) {
  return {
    properties: properties ?? [],
    share: rollout_percentage ?? 100,
    variant: variant || null,
    aggregation: rest.aggregation_group_type_index ?? null,
    description: rest.description || null,
  };
}

function sameCondition(a: FlagCondition | undefined, b: FlagCondition): boolean {
  return a !== undefined && sameJson(core(a), core(b));
}

function shareSomething(a: FlagCondition | undefined, b: FlagCondition): boolean {
  if (!a) return false;
  if (sameJson(a.properties ?? [], b.properties ?? [])) return true;
  return (a.properties ?? []).some((mine) =>
    (b.properties ?? []).some((theirs) => mine.key === theirs.key && mine.type === theirs.type),
  );
}

function changesOfCondition(
  name: string,
  before: FlagCondition,
  after: FlagCondition,
  names: Names,
): string[] {
  const said: string[] = [];
  const [was, is] = [core(before), core(after)];
  if (was.aggregation !== is.aggregation) {
    said.push(
      `${name} is about ${subjectsOf(after, names)} instead of ${subjectsOf(before, names)}.`,
    );
  }
  if (was.share !== is.share) {
    said.push(`${name}: rollout ${exact(was.share)}% → ${exact(is.share)}%.`);
  }
  const gone = was.properties.filter((one) => !is.properties.some((other) => sameJson(one, other)));
  const come = is.properties.filter((one) => !was.properties.some((other) => sameJson(one, other)));
  for (const filter of come) {
    const at = gone.findIndex((one) => one.key === filter.key && one.type === filter.type);
    const [old] = at < 0 ? [] : gone.splice(at, 1);
    said.push(
      old
        ? `${name}: “${filterSentence(filter, names)}” in place of “${filterSentence(old, names)}”.`
        : `${name} also asks for “${filterSentence(filter, names)}”.`,
    );
  }
  for (const filter of gone)
    said.push(`${name} no longer asks for “${filterSentence(filter, names)}”.`);
  if (was.variant !== is.variant) {
    said.push(
      is.variant
        ? `${name}: everybody who matches gets ${is.variant}${was.variant ? ` instead of ${was.variant}` : ""}.`
        : `${name}: who matches gets a variant by the shares, no longer ${was.variant}.`,
    );
  }
  if (was.description !== is.description) said.push(`${name} is described otherwise.`);
  return said;
}

function changesOfConditions(before: FlagFilters, after: FlagFilters, names: Names): string[] {
  const [old, now] = [conditionsOf(before), conditionsOf(after)];
  const { partner, removed } = pairs(old, now);
  const said: string[] = [];
  now.forEach((condition, at) => {
    const from = partner.get(at);
    const name = `Condition ${at + 1}`;
    const was = from === undefined ? undefined : old[from];
    if (was) said.push(...changesOfCondition(name, was, condition, names));
    else said.push(`New condition ${at + 1}: ${conditionSentence(condition, names)}.`);
  });
  for (const at of removed) {
    const condition = old[at];
    if (condition) {
      said.push(`Condition ${at + 1} goes: ${conditionSentence(condition, names)}.`);
    }
  }
  const order = [...partner].sort(([a], [b]) => a - b).map(([, from]) => from);
  if (order.some((from, at) => at > 0 && from < (order[at - 1] ?? 0))) {
    said.push("The conditions stand in another order; the first that matches decides.");
  }
  return said;
}

function changesOfVariants(before: FlagFilters, after: FlagFilters): string[] {
  const [old, now] = [variantsOf(before), variantsOf(after)];
  const said: string[] = [];
  for (const variant of now) {
    const was = old.find(({ key }) => key === variant.key);
    if (!was) said.push(`New variant ${variant.key} with ${exact(variant.rollout_percentage)}%.`);
    else if (was.rollout_percentage !== variant.rollout_percentage) {
      said.push(
        `Variant ${variant.key}: ${exact(was.rollout_percentage)}% → ${exact(variant.rollout_percentage)}%.`,
      );
    }
    if (was && (was.name ?? "") !== (variant.name ?? "")) {
      said.push(`Variant ${variant.key} is described otherwise.`);
    }
  }
  for (const { key } of old) {
    if (!now.some((variant) => variant.key === key)) said.push(`Variant ${key} goes.`);
  }
  const kept = (list: typeof old, other: typeof old) =>
    list.map(({ key }) => key).filter((key) => other.some((variant) => variant.key === key));
  if (!sameJson(kept(old, now), kept(now, old))) {
    said.push("The variants stand in another order, which gives people other ones.");
  }
  return said;
}

function changesOfPayloads(before: FlagFilters, after: FlagFilters): string[] {
  const [old, now] = [before.payloads ?? {}, after.payloads ?? {}];
  const said: string[] = [];
  for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
    if (sameJson(old[key], now[key])) continue;
    const what = key === "true" ? "The payload" : `The payload of ${key}`;
    if (old[key] === undefined || old[key] === null) said.push(`${what} is new.`);
    else if (now[key] === undefined || now[key] === null) said.push(`${what} goes.`);
    else said.push(`${what} changes.`);
  }
  return said;
}

const RUNTIMES = {
  all: "everywhere",
  client: "in clients only",
  server: "on servers only",
} as const;

function listChange(what: string, before: readonly string[], after: readonly string[]): string[] {
  const come = after.filter((one) => !before.includes(one));
  const gone = before.filter((one) => !after.includes(one));
  const said: string[] = [];
  if (come.length > 0) said.push(`${what} added: ${come.join(", ")}.`);
  if (gone.length > 0) said.push(`${what} removed: ${gone.join(", ")}.`);
  return said;
}

/// The changes between two versions, the weightiest first.
export function changeSentences(before: FlagDraft, after: FlagDraft, names: Names): string[] {
  const said: string[] = [];
  if (before.deleted !== after.deleted) {
    said.push(
      after.deleted
        ? "The flag is deleted: everybody gets false, as of a flag that does not exist."
        : "The flag comes back.",
    );
  }
  if (before.active !== after.active) {
    said.push(
      after.active ? "The flag is switched on." : "The flag is switched off: everybody gets false.",
    );
  }
  if (before.archived !== after.archived) {
    said.push(after.archived ? "The flag is archived." : "The flag comes back from the archive.");
  }
  if (before.key !== after.key) {
    said.push(
      `The key becomes ${after.key}: code that asks for ${before.key} gets nothing any more, and people fall into other shares.`,
    );
  }
  const [was, is] = [kindOf(before), kindOf(after)];
  if (was !== is) said.push(`${KIND_LABELS[is]} instead of ${KIND_LABELS[was].toLowerCase()}.`);
  said.push(...changesOfConditions(before.filters, after.filters, names));
  said.push(...changesOfVariants(before.filters, after.filters));
  said.push(...changesOfPayloads(before.filters, after.filters));
  const known = new Set(["groups", "multivariate", "payloads", "aggregation_group_type_index"]);
  const others = (filters: FlagFilters) =>
    Object.fromEntries(Object.entries(filters).filter(([key]) => !known.has(key)));
  if (!sameJson(others(before.filters), others(after.filters))) {
    said.push("Other settings of its filters change.");
  }
  if (before.has_encrypted_payloads !== after.has_encrypted_payloads) {
    said.push(
      after.has_encrypted_payloads
        ? "Payloads are encrypted."
        : "Payloads are no longer encrypted.",
    );
  }
  const [ran, runs] = [before.evaluation_runtime ?? "all", after.evaluation_runtime ?? "all"];
  if (ran !== runs) said.push(`It is evaluated ${RUNTIMES[runs]} instead of ${RUNTIMES[ran]}.`);
  if (before.ensure_experience_continuity !== after.ensure_experience_continuity) {
    said.push(
      after.ensure_experience_continuity
        ? "People keep their value when they log in."
        : "People may get another value when they log in.",
    );
  }
  const device = (draft: FlagDraft) => draft.bucketing_identifier === "device_id";
  if (device(before) !== device(after)) {
    said.push(device(after) ? "Buckets by device." : "Buckets by person.");
  }
  said.push(
    ...listChange("Context", before.evaluation_contexts, after.evaluation_contexts),
    ...listChange("Tag", before.tags, after.tags),
    ...listChange(
      "Dashboard",
      before.analytics_dashboards.map(names.dashboard),
      after.analytics_dashboards.map(names.dashboard),
    ),
  );
  if (before.name !== after.name) {
    said.push(
      after.name ? `The description becomes “${cut(after.name)}”.` : "The description goes.",
    );
  }
  return said;
}

/// What a new flag is, in sentences.
export function creationSentences(draft: FlagDraft, names: Names): string[] {
  const kind = kindOf(draft);
  const said = [
    `A new ${KIND_LABELS[kind].toLowerCase()} flag ${draft.key}, switched ${draft.active ? "on" : "off"}.`,
  ];
  if (kind === "remote") said.push("Everybody who asks gets its payload.");
  else {
    conditionsOf(draft.filters).forEach((condition, at) => {
      said.push(`Condition ${at + 1}: ${conditionSentence(condition, names)}.`);
    });
  }
  if (kind === "multivariate") {
    const shares = variantsOf(draft.filters).map(
      ({ key, rollout_percentage: share }) => `${key} ${exact(share)}%`,
    );
    said.push(`Variants: ${shares.join(", ")}.`);
  }
  return said;
}

/// Fields that change nobody's value.
const SILENT = new Set(["name", "tags", "analytics_dashboards", "has_encrypted_payloads"]);

/// Whether a change of these fields may give somebody another value.
export function mayChangeValues(
  fields: readonly string[],
  before: FlagDraft,
  after: FlagDraft,
): boolean {
  return fields.some((field) => {
    if (field !== "filters") return !SILENT.has(field);
    const { payloads: _, ...was } = before.filters;
    const { payloads: __, ...is } = after.filters;
    const named = ({ multivariate, groups, ...rest }: Omit<FlagFilters, "payloads">) => ({
      ...rest,
      shares: multivariate?.variants.map(({ key, rollout_percentage }) => [
        key,
        rollout_percentage,
      ]),
      conditions: (groups ?? []).map(({ description: ___, sort_key: ____, ...group }) => group),
    });
    return !sameJson(named(was), named(is));
  });
}

const TEXT_CHARS_MAX = 120;

function cut(text: string): string {
  const [...chars] = text;
  return chars.length > TEXT_CHARS_MAX ? `${chars.slice(0, TEXT_CHARS_MAX).join("")}…` : text;
}
