import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queryClient";
import { TagsInput } from "@/insights/TagsInput";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, ErrorPanel, Field, MultiCombobox, Select, toast } from "@/ui";
import { count, exact } from "@/ui/format";
import type { Flag } from "./flagApi";
import { restoringTags, type TagAction, tagsAfter } from "./model/severalFlags";

const ACTIONS = [
  { value: "add", label: "Add tags" },
  { value: "remove", label: "Remove tags" },
  { value: "set", label: "Replace all tags" },
] as const;

function updateTags(projectId: string, body: Schemas["BulkUpdateTags"]) {
  return call(
    api.POST("/api/projects/{project_id}/feature_flags/bulk_update_tags", {
      params: { path: { project_id: projectId } },
      body,
    }),
  );
}

export interface TagFlagsDialogProps {
  flags: readonly Flag[];
  onClose: () => void;
  onSaved: () => void;
}

/// Adds tags to several flags, removes some, or replaces all.
export function TagFlagsDialog({ flags, onClose, onSaved }: TagFlagsDialogProps) {
  const { projectId } = useProject();
  const [action, setAction] = useState<TagAction>("add");
  const [tags, setTags] = useState<readonly string[]>([]);
  const present = [...new Set(flags.flatMap((flag) => flag.tags))].sort();
  const changing = flags.filter(
    (flag) => [...flag.tags].sort().join() !== tagsAfter(flag.tags, action, tags).sort().join(),
  );
  const refresh = () => {
    void queryClient.invalidateQueries({ queryKey: ["feature_flags", projectId] });
    void queryClient.invalidateQueries({ queryKey: ["feature_flag", projectId] });
  };
  const undo = async (changed: readonly Flag[]) => {
    try {
      for (const { ids, tags: before } of restoringTags(changed)) {
        await updateTags(projectId, { ids, tags: before, action: "set" });
      }
    } catch (error) {
      toast.error(error, "Not all tags came back");
    }
    refresh();
  };
  const save = useMutation({
    mutationFn: (those: readonly Flag[]) =>
      updateTags(projectId, { ids: those.map(({ id }) => id), action, tags: [...tags] }),
    onSuccess: ({ updated, skipped }, those) => {
      refresh();
      if (skipped.length > 0) return;
      toast.success(`Changed the tags of ${count(updated.length, "flag")}`, {
        undo: () => void undo(those),
      });
      onSaved();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (changing.length > 0) save.mutate(changing);
  };
  const skipped = save.data?.skipped ?? [];
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Tags of ${count(flags.length, "flag")}`}
      size="sm"
      footer={
        skipped.length > 0 ? (
          <Button variant="primary" onClick={onSaved}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button
              variant="primary"
              type="submit"
              form="tag-flags"
              busy={save.isPending}
              disabled={changing.length === 0}
            >
              {changing.length > 0 ? `Change ${count(changing.length, "flag")}` : "Change"}
            </Button>
          </>
        )
      }
    >
      {skipped.length > 0 ? (
        <div role="status" className="flex flex-col gap-2">
          <p>
            {exact(save.data?.updated.length ?? 0)} of {count(save.variables?.length ?? 0, "flag")}{" "}
            changed. The others stay as they were:
          </p>
          <ul className="flex flex-col gap-1.5">
            {skipped.map(({ id, reason }) => (
              <li key={id} className="rounded-md bg-sunken px-3 py-2">
                <span className="font-medium wrap-anywhere">
                  {flags.find((flag) => flag.id === id)?.key ?? `Flag ${id}`}
                </span>
                <span className="block text-muted">{reason}</span>
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <form id="tag-flags" onSubmit={submit} className="flex flex-col gap-3">
          <Select
            label="Change"
            value={action}
            options={ACTIONS}
            onChange={(next) => {
              setAction(next);
              setTags([]);
            }}
          />
          {action === "remove" ? (
            present.length === 0 ? (
              <p className="text-muted">These flags have no tags.</p>
            ) : (
              <MultiCombobox
                label="Tags"
                placeholder="Choose tags"
                value={tags}
                options={present.map((tag) => ({ value: tag, label: tag }))}
                onChange={setTags}
              />
            )
          ) : (
            <Field
              label="Tags"
              hint={action === "set" ? "Without one, all tags are removed." : undefined}
            >
              <TagsInput value={tags} onChange={setTags} />
            </Field>
          )}
          {tags.length > 0 && changing.length < flags.length && (
            <p className="text-muted">
              {exact(flags.length - changing.length)} of them stay as they are.
            </p>
          )}
          {save.isError && (
            <ErrorPanel error={save.error} title="The tags were not changed" className="py-2" />
          )}
        </form>
      )}
    </Dialog>
  );
}
