import { encodeDraft } from "../draft";
import type { TrendsQuery } from "../queries";
import { comparedAt } from "./withRange";

/// The fragment of a link that opens a trend with the time before and after a change.
export function comparedDraft(query: TrendsQuery, at: number, timeZone: string): string {
  return encodeDraft(comparedAt(query, at, timeZone));
}
