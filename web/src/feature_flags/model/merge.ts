/// Three versions of a flag: what both edited, what is stored now, and the draft.

import { sameJson } from "@/shell/fragment";
import type { FlagFilters } from "../flagApi";
import { DRAFT_FIELDS, type DraftField, type FlagDraft } from "./draft";

/// A part that two people changed differently: a field, or a key of the filters.
export type Part = Exclude<DraftField, "filters"> | `filters.${keyof FlagFilters & string}`;

export interface Clash {
  part: Part;
  theirs: unknown;
  mine: unknown;
}

function parts(drafts: readonly FlagDraft[]): Part[] {
  const keys = new Set(drafts.flatMap(({ filters }) => Object.keys(filters)));
  // It follows from the conditions.
  keys.delete("aggregation_group_type_index");
  const fields = DRAFT_FIELDS.filter((field) => field !== "filters") as Part[];
  return [...fields, ...[...keys].map((key) => `filters.${key}` as Part)];
}

function partOf(draft: FlagDraft, part: Part): unknown {
  return part.startsWith("filters.")
    ? (draft.filters as Record<string, unknown>)[part.slice("filters.".length)]
    : draft[part as DraftField];
}

function withPart(draft: FlagDraft, part: Part, value: unknown): FlagDraft {
  if (!part.startsWith("filters.")) return { ...draft, [part]: value };
  // A key that is left out stays as it is stored.
  const filters = { ...draft.filters, [part.slice("filters.".length)]: value ?? null };
  return { ...draft, filters };
}

/// Theirs with my changes. What both changed differently is theirs, and listed.
export function mergeDrafts(
  base: FlagDraft,
  mine: FlagDraft,
  theirs: FlagDraft,
): { merged: FlagDraft; clashes: Clash[] } {
  let merged = theirs;
  const clashes: Clash[] = [];
  for (const part of parts([base, mine, theirs])) {
    const [was, my, their] = [base, mine, theirs].map((draft) => partOf(draft, part));
    if (sameJson(was, my) || sameJson(my, their)) continue;
    if (sameJson(was, their)) merged = withPart(merged, part, my);
    else clashes.push({ part, theirs: their, mine: my });
  }
  return { merged, clashes };
}

/// The merge with my version of the chosen parts.
export function chooseMine(
  merged: FlagDraft,
  clashes: readonly Clash[],
  mine: ReadonlySet<Part>,
): FlagDraft {
  return clashes
    .filter(({ part }) => mine.has(part))
    .reduce((draft, { part, mine: value }) => withPart(draft, part, value), merged);
}

const PART_LABELS: Partial<Record<Part, string>> = {
  key: "Key",
  name: "Description",
  active: "On or off",
  archived: "Archived",
  deleted: "Deleted",
  tags: "Tags",
  evaluation_contexts: "Evaluation contexts",
  evaluation_runtime: "Evaluation runtime",
  bucketing_identifier: "Bucketing",
  ensure_experience_continuity: "Persistence",
  is_remote_configuration: "Remote config",
  has_encrypted_payloads: "Encryption of payloads",
  analytics_dashboards: "Dashboards",
  "filters.groups": "Conditions",
  "filters.multivariate": "Variants",
  "filters.payloads": "Payloads",
};

export function partLabel(part: Part): string {
  return PART_LABELS[part] ?? part.replace("filters.", "");
}
