import { ArrowLeft } from "lucide-react";
import { useMemo, useState } from "react";
import { ApiError, errorMessage } from "@/api/errors";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, toast } from "@/ui";
import { Explanation } from "../Explanation";
import type { Flag, Subject } from "../flagApi";
import {
  changedFields,
  changeFields,
  conditionsOf,
  creationFields,
  type DraftBase,
  type FlagDraft,
} from "../model/draft";
import type { Part } from "../model/merge";
import { chooseMine } from "../model/merge";
import { changeSentences, creationSentences, mayChangeValues } from "../model/sentences";
import { useNames } from "../useNames";
import { ConflictParts } from "./ConflictParts";
import { Matrix } from "./Matrix";
import { type FlagConflict, offerUndo, saveDraft } from "./save";

export interface ReviewDialogProps {
  /// Null for a flag that does not exist yet.
  flag: Flag | null;
  base: DraftBase;
  draft: FlagDraft;
  onClose: () => void;
  onSaved: (flag: Flag) => void;
  /// The draft now stands over what somebody else saved.
  onMerged: (theirs: DraftBase, merged: FlagDraft) => void;
}

/// What a save would do, before it is done: in sentences, and to whom.
export function ReviewDialog(props: ReviewDialogProps) {
  const { flag, base, draft, onClose, onSaved, onMerged } = props;
  const { projectId } = useProject();
  const names = useNames();
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [conflict, setConflict] = useState<FlagConflict | null>(null);
  const [mine, setMine] = useState<ReadonlySet<Part>>(new Set());
  const [why, setWhy] = useState<Subject | null>(null);

  const before = base.fields;
  const fields = useMemo(
    () => (flag ? changeFields(base, draft) : creationFields(draft)),
    [flag, base, draft],
  );
  const sentences = useMemo(
    () => (flag ? changeSentences(before, draft, names) : creationSentences(draft, names)),
    [flag, before, draft, names],
  );
  const matters = !flag || mayChangeValues(changedFields(before, draft), before, draft);
  const types = new Set(
    conditionsOf(draft.filters).map(({ aggregation_group_type_index: index }) => index ?? null),
  );
  const groupTypeIndex = types.size === 1 ? ([...types][0] ?? null) : null;

  const save = async () => {
    setSaving(true);
    setError(null);
    try {
      const result = await saveDraft(projectId, flag, base, draft);
      if ("saved" in result) {
        offerUndo(projectId, flag, before, draft, result.saved);
        onSaved(result.saved);
      } else if (result.conflict.clashes.length === 0) {
        toast.info("Merged with what somebody else saved meanwhile. Look at it again.");
        onMerged(result.conflict.theirs, result.conflict.merged);
      } else {
        setConflict(result.conflict);
      }
    } catch (failure) {
      setError(failure);
    } finally {
      setSaving(false);
    }
  };
  const settle = () => {
    if (!conflict) return;
    const merged = chooseMine(conflict.merged, conflict.clashes, mine);
    setConflict(null);
    setMine(new Set());
    onMerged(conflict.theirs, merged);
  };

  const title = conflict
    ? "This flag was changed meanwhile"
    : why
      ? `Why ${why.distinctId || Object.values(why.groups)[0]}`
      : !flag
        ? "Review the new flag"
        : draft.deleted && !before.deleted
          ? `Delete ${flag.key}?`
          : `Review changes of ${flag.key}`;
  const footer = conflict ? (
    <>
      <Button className="sm:mr-auto" onClick={onClose}>
        Keep editing
      </Button>
      <Button variant="primary" onClick={settle}>
        Review the merge
      </Button>
    </>
  ) : why ? (
    <Button className="sm:mr-auto" icon={<ArrowLeft aria-hidden />} onClick={() => setWhy(null)}>
      Back to the review
    </Button>
  ) : (
    <>
      <Button className="sm:mr-auto" onClick={onClose}>
        Back
      </Button>
      <Button
        variant={draft.deleted && !before.deleted ? "danger" : "primary"}
        busy={saving}
        disabled={sentences.length === 0}
        onClick={() => void save()}
      >
        {draft.deleted && !before.deleted ? "Delete" : flag ? "Save" : "Create"}
      </Button>
    </>
  );
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      size="lg"
      footer={footer}
    >
      {conflict ? (
        <ConflictParts conflict={conflict} mine={mine} onChange={setMine} names={names} />
      ) : why ? (
        <Explanation
          flagId={flag?.id ?? null}
          subject={why}
          base={before}
          fields={fields}
          draft={draft}
        />
      ) : (
        <div className="flex flex-col gap-4">
          {Boolean(error) && <Refusal error={error} />}
          <section aria-label="What changes">
            <h3 className="mb-1 font-semibold">What changes</h3>
            {sentences.length === 0 ? (
              <p className="text-muted">Nothing: it is stored like this already.</p>
            ) : (
              <ul className="flex list-disc flex-col gap-0.5 pl-5">
                {sentences.map((sentence) => (
                  <li key={sentence} className="wrap-anywhere">
                    {sentence}
                  </li>
                ))}
              </ul>
            )}
          </section>
          <section aria-label="Who changes">
            <h3 className="mb-1 font-semibold">Who changes</h3>
            {matters && sentences.length > 0 ? (
              <Matrix
                projectId={projectId}
                flagId={flag?.id ?? null}
                fields={fields}
                groupTypeIndex={groupTypeIndex}
                onWhy={setWhy}
              />
            ) : (
              <p className="text-muted">Nobody: no value depends on this.</p>
            )}
          </section>
        </div>
      )}
    </Dialog>
  );
}

/// Why the server did not store it.
function Refusal({ error }: { error: unknown }) {
  const id = error instanceof ApiError ? error.requestId : null;
  return (
    <div role="alert" className="rounded-md bg-danger-soft px-3 py-2 text-danger">
      <p className="font-medium">Not saved: {errorMessage(error)}</p>
      {id && <p className="text-xs">Request {id}</p>}
    </div>
  );
}
