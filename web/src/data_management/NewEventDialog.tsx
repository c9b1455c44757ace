import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { errorMessage, fieldError } from "@/api/errors";
import type { EventDefinition } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, Field, Input, Textarea } from "@/ui";

/// Defines an event before it is sent, as part of a plan of what to track.
export function NewEventDialog({
  onClose,
  onCreated,
}: {
  onClose: () => void;
  onCreated: (definition: EventDefinition) => void;
}) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const create = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/event_definitions", {
          params: { path: { project_id: projectId } },
          body: { name: name.trim(), description: description.trim() || null },
        }),
      ),
    onSuccess: (definition) => {
      void client.invalidateQueries({ queryKey: ["event_definitions", projectId] });
      onCreated(definition);
    },
  });
  const { error } = create;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="New event"
      description="Describes an event before the first one is sent."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="new-event" busy={create.isPending}>
            Create event
          </Button>
        </>
      }
    >
      <form
        id="new-event"
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <Field
          label="Name"
          hint="Exactly as capture() sends it."
          error={error ? (fieldError(error, "name") ?? errorMessage(error)) : null}
        >
          <Input
            autoFocus
            required
            maxLength={400}
            value={name}
            placeholder="subscription cancelled"
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Description">
          <Textarea
            rows={2}
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
          />
        </Field>
      </form>
    </Dialog>
  );
}
