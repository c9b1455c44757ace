import { type FragmentDraft, useFragmentDraft } from "@/shell/useFragmentDraft";
import { decodeDraft, encodeDraft, sameQuery } from "./draft";
import type { InsightQuery } from "./queries";

export interface Draft extends Omit<FragmentDraft<InsightQuery>, "value"> {
  query: InsightQuery;
}

const CODEC = { encode: encodeDraft, decode: decodeDraft, same: sameQuery };

/// The draft of an insight.
export function useDraft(saved: InsightQuery): Draft {
  const { value, ...rest } = useFragmentDraft(saved, CODEC);
  return { query: value, ...rest };
}
