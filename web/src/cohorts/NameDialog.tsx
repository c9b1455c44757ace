import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { fieldError } from "@/api/errors";
import { Button, Dialog, ErrorPanel, Field, Input, Textarea } from "@/ui";
import { type Cohort, updateCohort } from "./cohortApi";

export interface NameDialogProps {
  projectId: string;
  cohort: Cohort;
  onClose: () => void;
}

/// Name and description of a static cohort, which has no conditions to edit beside them.
export function NameDialog({ projectId, cohort, onClose }: NameDialogProps) {
  const [name, setName] = useState(cohort.name ?? "");
  const [description, setDescription] = useState(cohort.description);
  const save = useMutation({
    mutationFn: () =>
      updateCohort(projectId, cohort.id, { name: name.trim() || null, description }),
    onSuccess: onClose,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const known = ["name", "description"].some((attr) => fieldError(save.error, attr));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Name and description"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="name-cohort" busy={save.isPending}>
            Save
          </Button>
        </>
      }
    >
      <form id="name-cohort" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="Name" error={fieldError(save.error, "name")}>
          <Input
            autoFocus
            maxLength={400}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Description" error={fieldError(save.error, "description")}>
          <Textarea
            maxLength={1_000}
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
          />
        </Field>
      </form>
      {save.isError && !known && (
        <ErrorPanel error={save.error} title="Could not save" className="py-3" />
      )}
    </Dialog>
  );
}
