import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, Field, toast } from "@/ui";
import { count } from "@/ui/format";
import { type Insight, updateInsight } from "./insightApi";
import { TagsInput } from "./TagsInput";

/// Adds tags to several insights.
export function TagDialog({
  insights,
  onClose,
  onSaved,
}: {
  insights: readonly Insight[];
  onClose: () => void;
  onSaved: () => void;
}) {
  const { projectId } = useProject();
  const [tags, setTags] = useState<string[]>([]);
  const save = useMutation({
    mutationFn: async () => {
      for (const insight of insights) {
        const merged = [...new Set([...insight.tags, ...tags])];
        await updateInsight(projectId, insight.short_id, { tags: merged });
      }
    },
    onSuccess: () => {
      toast.success(`Tagged ${count(insights.length, "insight")}`, {
        undo: () => {
          const restore = async () => {
            for (const insight of insights) {
              await updateInsight(projectId, insight.short_id, { tags: insight.tags });
            }
          };
          restore().catch((error) => toast.error(error));
        },
      });
      onSaved();
    },
    onError: (error) => toast.error(error, "Not everything was tagged"),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (tags.length > 0) save.mutate();
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Tag ${count(insights.length, "insight")}`}
      description="The tags are added to those that are there."
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            type="submit"
            form="tag-insights"
            busy={save.isPending}
            disabled={tags.length === 0}
          >
            Add tags
          </Button>
        </>
      }
    >
      <form id="tag-insights" onSubmit={submit}>
        <Field label="Tags">
          <TagsInput value={tags} onChange={setTags} />
        </Field>
      </form>
    </Dialog>
  );
}
