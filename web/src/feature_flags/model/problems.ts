/// What keeps a draft from being saved, before the server is asked.

import { isComplete } from "@/filters/operators";
import { conditionsOf, type FlagDraft, isRedacted, kindOf, variantsOf } from "./draft";
import { sumOfShares, sumsTo100 } from "./variants";

export interface DraftProblem {
  /// Where: a field, `variants`, `payload.KEY` or `condition.INDEX`.
  at: string;
  text: string;
}

const KEY = /^[A-Za-z0-9_-]+$/;
const VARIANT_KEY = /^[A-Za-z0-9_./-]+$/;
const CHARS_MAX = 400;

/// The error of a payload; undefined where it is JSON.
export function payloadProblem(payload: unknown): string | undefined {
  if (payload === undefined || payload === null || isRedacted(payload)) return undefined;
  if (typeof payload !== "string" || payload === "") return undefined;
  try {
    JSON.parse(payload);
    return undefined;
  } catch {
    return "This is not valid JSON. Text needs quotes.";
  }
}

export function problemsOf(draft: FlagDraft): DraftProblem[] {
  const found: DraftProblem[] = [];
  const add = (at: string, text: string) => found.push({ at, text });
  if (draft.key === "") add("key", "A flag needs a key.");
  else if (!KEY.test(draft.key) || draft.key.length > CHARS_MAX) {
    add("key", "Only letters, digits, - and _, at most 400.");
  }
  const { filters } = draft;
  const variants = variantsOf(filters);
  if (kindOf(draft) === "multivariate") {
    const keys = variants.map(({ key }) => key);
    if (keys.some((key) => !VARIANT_KEY.test(key) || key.length > CHARS_MAX)) {
      add("variants", "A variant’s key has letters, digits or any of _ . / -");
    } else if (new Set(keys).size < keys.length) {
      add("variants", "Two variants have the same key.");
    }
    if (!sumsTo100(variants)) {
      add("variants", `The shares sum to ${sumOfShares(variants)}%, not to 100%.`);
    }
  }
  for (const [key, payload] of Object.entries(filters.payloads ?? {})) {
    const problem = payloadProblem(payload);
    if (problem) add(`payload.${key}`, problem);
  }
  conditionsOf(filters).forEach(({ properties }, at) => {
    if ((properties ?? []).some((property) => !isComplete(property))) {
      add(`condition.${at}`, "A filter of this condition has no value yet.");
    }
  });
  if (draft.bucketing_identifier === "device_id" && draft.ensure_experience_continuity) {
    add(
      "ensure_experience_continuity",
      "Bucketing by device keeps the value by itself: switch persistence off.",
    );
  }
  return found;
}
