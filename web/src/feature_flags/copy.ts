import type { Flag } from "./flagApi";
import { draftOf, encodeFlagDraft, isRedacted, newDraft } from "./model/draft";

/// The fragment that opens the editor with a copy. Encrypted payloads stay behind: nobody may read them.
export function copyFragment(flag: Flag): string {
  const { filters, ...fields } = draftOf(flag);
  const payloads = Object.fromEntries(
    Object.entries(filters.payloads ?? {}).filter(([, payload]) => !isRedacted(payload)),
  );
  const copy = {
    ...fields,
    key: `${flag.key}-copy`,
    active: false,
    archived: false,
    deleted: false,
    filters: { ...filters, payloads },
  };
  return encodeFlagDraft({ version: 0, fields: newDraft() }, copy);
}
