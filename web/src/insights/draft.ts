/// Drafts of queries in the URL's fragment.

import { decodeJson, encodeJson, sameJson } from "@/shell/fragment";
import { editableQuery, type InsightQuery } from "./queries";

export function encodeDraft(query: InsightQuery): string {
  return encodeJson(query);
}

/// The query of a fragment, also of PostHog's links, which wrap it; null where there is none that
/// can be edited.
export function decodeDraft(fragment: string): InsightQuery | null {
  return decodeJson(fragment, editableQuery);
}

export function sameQuery(a: InsightQuery | null, b: InsightQuery | null): boolean {
  return sameJson(a, b);
}
