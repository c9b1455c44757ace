/// Versions of a flag from its history.

import type { Schemas } from "@/api/client";
import { DRAFT_FIELDS, type DraftField, draftOf, type FlagDraft } from "./draft";

export type Entry = Schemas["Entry"];

function isDraftField(field: string | null | undefined): field is DraftField {
  return DRAFT_FIELDS.includes(field as DraftField);
}

/// The flag as it was right after an entry: the changes of all later ones are taken back. `later` begins
/// with the newest.
export function versionAfter(now: FlagDraft, later: readonly Pick<Entry, "detail">[]): FlagDraft {
  let version = now;
  for (const { detail } of later) {
    for (const { field, before } of detail.changes ?? []) {
      if (!isDraftField(field)) continue;
      version = { ...version, [field]: before ?? emptyOf(now, field) };
    }
  }
  return draftOf(version);
}

/// What a field is that had no value yet.
function emptyOf(like: FlagDraft, field: DraftField): unknown {
  const value = like[field];
  if (Array.isArray(value)) return [];
  if (typeof value === "boolean") return false;
  if (field === "key" || field === "name") return "";
  return field === "filters" ? { groups: [] } : null;
}
