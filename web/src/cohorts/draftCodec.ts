import { decodeJson, encodeJson, sameJson } from "@/shell/fragment";
import { readDraft } from "./conditions";

/// How a cohort that is being edited is kept in the URL.
export const DRAFT_CODEC = {
  encode: encodeJson,
  decode: (fragment: string) => decodeJson(fragment, readDraft),
  same: sameJson,
};
