/// What the editor changes of a flag, and how it is written to the URL.

import { decodeJson, encodeJson, sameJson } from "@/shell/fragment";
import type { Flag, FlagCondition, FlagFields, FlagFilters, FlagVariant } from "../flagApi";

export const DRAFT_FIELDS = [
  "key",
  "name",
  "active",
  "archived",
  "deleted",
  "filters",
  "tags",
  "evaluation_contexts",
  "evaluation_runtime",
  "bucketing_identifier",
  "ensure_experience_continuity",
  "is_remote_configuration",
  "has_encrypted_payloads",
  "analytics_dashboards",
] as const;

export type DraftField = (typeof DRAFT_FIELDS)[number];
export type FlagDraft = Pick<Flag, DraftField>;

/// What a draft was made from: saving it compares this with what is stored then.
export interface DraftBase {
  version: number;
  fields: FlagDraft;
}

/// Stands in answers to browsers for what is encrypted; sent back, it keeps the stored payload.
const REDACTED = /^\*+ \(encrypted\)$/;

export function isRedacted(payload: unknown): boolean {
  return typeof payload === "string" && REDACTED.test(payload);
}

export function draftOf(flag: FlagDraft): FlagDraft {
  const entries = DRAFT_FIELDS.map((field) => [field, flag[field]]);
  const draft = Object.fromEntries(entries) as FlagDraft;
  return { ...draft, filters: withoutNames(draft.filters) };
}

export function baseOf(flag: Flag): DraftBase {
  return { version: flag.version, fields: draftOf(flag) };
}

/// The names that answers add to conditions are no part of them.
function withoutNames(filters: FlagFilters): FlagFilters {
  return {
    ...filters,
    groups: (filters.groups ?? []).map((condition) => ({
      ...condition,
      properties: (condition.properties ?? []).map(
        ({ cohort_name: _, group_key_names: __, ...property }) => property,
      ),
    })),
  };
}

export function newCondition(groupTypeIndex: number | null = null): FlagCondition {
  return {
    properties: [],
    rollout_percentage: 0,
    variant: null,
    aggregation_group_type_index: groupTypeIndex,
  };
}

export function newDraft(): FlagDraft {
  return {
    key: "",
    name: "",
    active: true,
    archived: false,
    deleted: false,
    filters: {
      groups: [newCondition()],
      multivariate: null,
      payloads: {},
      aggregation_group_type_index: null,
    },
    tags: [],
    evaluation_contexts: [],
    evaluation_runtime: "all",
    bucketing_identifier: "distinct_id",
    ensure_experience_continuity: false,
    is_remote_configuration: false,
    has_encrypted_payloads: false,
    analytics_dashboards: [],
  };
}

export type FlagKind = "boolean" | "multivariate" | "remote";

export const KIND_LABELS: Record<FlagKind, string> = {
  boolean: "Boolean",
  multivariate: "Multivariate",
  remote: "Remote config",
};

export function kindOf(flag: Pick<FlagDraft, "filters" | "is_remote_configuration">): FlagKind {
  if (flag.is_remote_configuration) return "remote";
  return variantsOf(flag.filters).length > 0 ? "multivariate" : "boolean";
}

export function conditionsOf({ groups }: FlagFilters): FlagCondition[] {
  return groups ?? [];
}

export function variantsOf({ multivariate }: FlagFilters): FlagVariant[] {
  return multivariate?.variants ?? [];
}

/// The condition's share; one without a share is for all.
export function rolloutOf({ rollout_percentage: share }: FlagCondition): number {
  return share ?? 100;
}

/// The payloads that still have a value to belong to.
export function fittingPayloads(filters: FlagFilters): FlagFilters["payloads"] {
  const keys = variantsOf(filters).map(({ key }) => key);
  const known = new Set(keys.length > 0 ? keys : ["true"]);
  const entries = Object.entries(filters.payloads ?? {});
  return Object.fromEntries(entries.filter(([key]) => known.has(key)));
}

/// The draft as it can be sent: a payload that is blank is none.
export function withoutBlankPayloads(draft: FlagDraft): FlagDraft {
  const entries = Object.entries(draft.filters.payloads ?? {});
  const payloads = Object.fromEntries(entries.filter(([, payload]) => payload !== ""));
  return Object.keys(payloads).length === entries.length
    ? draft
    : { ...draft, filters: { ...draft.filters, payloads } };
}

/// Another kind of the same flag. Conditions stay; a remote config serves everybody.
export function withKind(draft: FlagDraft, kind: FlagKind): FlagDraft {
  const { filters } = draft;
  const conditions = conditionsOf(filters);
  if (kind === "multivariate") {
    const variants = variantsOf(filters);
    const next: FlagFilters = {
      ...filters,
      multivariate: {
        variants:
          variants.length > 0
            ? variants
            : [
                { key: "control", name: "", rollout_percentage: 50 },
                { key: "test", name: "", rollout_percentage: 50 },
              ],
      },
    };
    return {
      ...draft,
      is_remote_configuration: false,
      has_encrypted_payloads: false,
      filters: { ...next, payloads: fittingPayloads(next) },
    };
  }
  const groups = conditions.map((condition) => ({ ...condition, variant: null }));
  const next: FlagFilters = { ...filters, multivariate: null, groups };
  const filtersOf = { ...next, payloads: fittingPayloads(next) };
  if (kind === "boolean") {
    return {
      ...draft,
      is_remote_configuration: false,
      has_encrypted_payloads: false,
      filters: filtersOf,
    };
  }
  return {
    ...draft,
    is_remote_configuration: true,
    filters: { ...filtersOf, groups: [{ ...newCondition(), rollout_percentage: 100 }] },
  };
}

export function sameDraft(a: FlagDraft, b: FlagDraft): boolean {
  return changedFields(a, b).length === 0;
}

export function changedFields(before: FlagDraft, after: FlagDraft): DraftField[] {
  return DRAFT_FIELDS.filter((field) => !sameJson(before[field], after[field]));
}

function pick(draft: FlagDraft, fields: readonly DraftField[]): Partial<FlagDraft> {
  return Object.fromEntries(fields.map((field) => [field, draft[field]]));
}

/// The body that changes what the draft changes, and nothing else.
export function changeFields(base: DraftBase, draft: FlagDraft): FlagFields {
  return pick(draft, changedFields(base.fields, draft));
}

/// The body of a save: refused where somebody else changed the same field meanwhile.
export function saveFields(base: DraftBase, draft: FlagDraft): FlagFields {
  return { ...changeFields(base, draft), version: base.version, original_flag: base.fields };
}

/// The body that creates the flag.
export function creationFields(draft: FlagDraft): FlagFields {
  const { archived: _, deleted: __, ...fields } = draft;
  return fields;
}

interface StoredDraft {
  v: number;
  set: Partial<FlagDraft>;
  was: Partial<FlagDraft>;
}

/// The draft as a fragment: what it changes, and what that was. A payload that is about to be encrypted
/// is no part of an address.
export function encodeFlagDraft(base: DraftBase, draft: FlagDraft): string {
  const shown: FlagDraft = draft.has_encrypted_payloads
    ? { ...draft, filters: { ...draft.filters, payloads: base.fields.filters.payloads } }
    : draft;
  const fields = changedFields(base.fields, shown);
  if (fields.length === 0) return "";
  const stored: StoredDraft = {
    v: base.version,
    set: pick(shown, fields),
    was: pick(base.fields, fields),
  };
  return encodeJson(stored);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/// Fields of a draft that have the shape of the known ones.
function readFields(value: unknown, like: FlagDraft): Partial<FlagDraft> | null {
  if (!isRecord(value)) return null;
  const known = DRAFT_FIELDS.filter((field) => field in value);
  const fits = known.every((field) => {
    const [given, model] = [value[field], like[field]];
    if (field === "filters") return isFilters(given);
    if (Array.isArray(model)) return Array.isArray(given);
    if (field === "evaluation_runtime" || field === "bucketing_identifier") {
      return given === null || typeof given === "string";
    }
    return typeof given === typeof model;
  });
  if (!fits) return null;
  return Object.fromEntries(known.map((field) => [field, value[field]])) as Partial<FlagDraft>;
}

function isFilters(value: unknown): value is FlagFilters {
  if (!isRecord(value)) return false;
  const { groups = [], multivariate, payloads } = value;
  const variants = isRecord(multivariate) ? multivariate.variants : [];
  return (
    Array.isArray(groups) &&
    groups.every(
      (group) =>
        isRecord(group) &&
        (group.properties === undefined ||
          group.properties === null ||
          (Array.isArray(group.properties) && group.properties.every(isRecord))),
    ) &&
    Array.isArray(variants) &&
    variants.every((variant) => isRecord(variant) && typeof variant.key === "string") &&
    (payloads === undefined || payloads === null || isRecord(payloads))
  );
}

/// The draft of a fragment and what it was made from; null where there is none.
export function decodeFlagDraft(
  fragment: string,
  saved: FlagDraft,
): { base: DraftBase; draft: FlagDraft } | null {
  return decodeJson(fragment, (value) => {
    if (!isRecord(value) || typeof value.v !== "number") return null;
    const [set, was] = [readFields(value.set, saved), readFields(value.was, saved)];
    if (!set || !was) return null;
    const fields = { ...saved, ...was };
    return { base: { version: value.v, fields }, draft: { ...fields, ...set } };
  });
}
