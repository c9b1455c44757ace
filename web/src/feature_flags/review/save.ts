import { api, call } from "@/api/client";
import { ApiError } from "@/api/errors";
import { userName } from "@/api/users";
import { sameJson } from "@/shell/fragment";
import { toast } from "@/ui";
import { createFlag, type Flag, remember, updateFlag } from "../flagApi";
import {
  baseOf,
  changeFields,
  creationFields,
  type DraftBase,
  draftOf,
  type FlagDraft,
  saveFields,
} from "../model/draft";
import { type Clash, mergeDrafts } from "../model/merge";

/// Somebody else saved other values of the same fields meanwhile.
export interface FlagConflict {
  theirs: DraftBase;
  /// Theirs with my changes where they do not clash.
  merged: FlagDraft;
  clashes: readonly Clash[];
  author: string | null;
}

export type SaveResult = { saved: Flag } | { conflict: FlagConflict };

/// Stores the draft, unless what it changes was changed otherwise meanwhile.
export async function saveDraft(
  projectId: string,
  flag: Flag | null,
  base: DraftBase,
  draft: FlagDraft,
): Promise<SaveResult> {
  if (!flag) {
    const saved = await createFlag(projectId, creationFields(draft));
    return { saved };
  }
  try {
    return { saved: await updateFlag(projectId, flag.id, saveFields(base, draft)) };
  } catch (error) {
    if (!(error instanceof ApiError && error.isConflict)) throw error;
  }
  const params = { path: { project_id: projectId, id: flag.id } };
  const now = await call(api.GET("/api/projects/{project_id}/feature_flags/{id}", { params }));
  remember(projectId, now);
  const theirs = baseOf(now);
  const { merged, clashes } = mergeDrafts(base.fields, draft, theirs.fields);
  const author = now.last_modified_by ? userName(now.last_modified_by) : null;
  return { conflict: { theirs, merged, clashes, author } };
}

/// Whether what was saved can be taken back: nobody but the server knows an encrypted payload.
function isRevertible(before: FlagDraft, after: FlagDraft): boolean {
  const encrypted = before.has_encrypted_payloads || after.has_encrypted_payloads;
  return !encrypted || sameJson(before.filters.payloads, after.filters.payloads);
}

/// Says what was saved, with ten seconds to take it back.
export function offerUndo(
  projectId: string,
  flag: Flag | null,
  before: FlagDraft,
  after: FlagDraft,
  saved: Flag,
): void {
  const title = !flag
    ? "Created"
    : after.deleted && !before.deleted
      ? "Deleted"
      : before.deleted && !after.deleted
        ? "Restored"
        : "Saved";
  const stored = baseOf(saved);
  const revert = async () => {
    const fields = flag
      ? { ...changeFields(stored, before), version: saved.version, original_flag: draftOf(saved) }
      : { deleted: true };
    try {
      await updateFlag(projectId, saved.id, fields);
      toast.success("Taken back", { description: flag ? before.key : saved.key });
    } catch (error) {
      toast.error(error, "It was not taken back");
    }
  };
  const undo = flag && !isRevertible(before, after) ? undefined : () => void revert();
  toast.success(title, {
    description: undo ? saved.key : `${saved.key}. An encrypted payload cannot be taken back.`,
    undo,
  });
}
