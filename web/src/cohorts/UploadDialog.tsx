import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Dialog, ErrorPanel, toast } from "@/ui";
import { count } from "@/ui/format";
import { addToCohort, type Cohort } from "./cohortApi";
import { EMPTY_INPUT, listOf, PersonListInput } from "./PersonListInput";
import { resolvePersons } from "./personList";

export interface UploadDialogProps {
  projectId: string;
  cohort: Cohort;
  onClose: () => void;
}

/// Adds many persons to a static cohort at once.
export function UploadDialog({ projectId, cohort, onClose }: UploadDialogProps) {
  const [input, setInput] = useState(EMPTY_INPUT);
  const upload = useMutation({
    mutationFn: async () => {
      const persons = await resolvePersons(projectId, listOf(input));
      if (persons.length === 0) throw new Error("Nobody has any of these ids.");
      return addToCohort(projectId, cohort.id, persons);
    },
    onSuccess: (changed) => {
      const added = (changed.count ?? 0) - (cohort.count ?? 0);
      toast.success(
        added > 0 ? `Added ${count(added, "person")}` : "Everybody who was found is in it already",
      );
      onClose();
    },
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Add persons"
      description="Persons who are in the cohort already stay."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            busy={upload.isPending}
            disabled={input.list.ids.length === 0}
            onClick={() => upload.mutate()}
          >
            Add persons
          </Button>
        </>
      }
    >
      <PersonListInput input={input} onChange={setInput} />
      {upload.isError && (
        <ErrorPanel error={upload.error} title="Could not add them" className="py-3" />
      )}
    </Dialog>
  );
}
