import { Radio } from "@base-ui/react/radio";
import { RadioGroup } from "@base-ui/react/radio-group";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { Button, Dialog, ErrorPanel, toast } from "@/ui";
import { count } from "@/ui/format";
import { personChanged, personsDeleted } from "./personApi";

type Scope = "person" | "both" | "events";

export interface DeleteDialogProps {
  projectId: string;
  persons: readonly { uuid: string; name: string }[];
  onClose: () => void;
  /// The persons are gone, unless only their events were to go.
  onDeleted: (scope: Scope) => void;
}

interface ScopeText {
  label: string;
  detail: string;
  action: string;
  done: string;
}

const ONE: Record<Scope, ScopeText> = {
  person: {
    label: "The person, but not their events",
    detail:
      "Properties, ids and memberships go. The events stay in charts, without a name. If the same id sends another event, a new person without the old properties appears.",
    action: "Delete person",
    done: "The person is deleted",
  },
  both: {
    label: "The person and all their events",
    detail: "As if they had never been here: numbers in charts of the past go down.",
    action: "Delete person and events",
    done: "The person is deleted; their events go within minutes",
  },
  events: {
    label: "Only the events",
    detail: "The person stays, with properties and ids.",
    action: "Delete events",
    done: "The events go within minutes",
  },
};

function textsOfMany(persons: string): Record<Scope, ScopeText> {
  return {
    person: {
      label: "The persons, but not their events",
      detail:
        "Properties, ids and memberships go. The events stay in charts, without names. If an id sends another event, a new person without the old properties appears.",
      action: `Delete ${persons}`,
      done: `Deleted ${persons}`,
    },
    both: {
      label: "The persons and all their events",
      detail: ONE.both.detail,
      action: `Delete ${persons} and their events`,
      done: `Deleted ${persons}; their events go within minutes`,
    },
    events: {
      label: "Only the events",
      detail: "The persons stay, with properties and ids.",
      action: `Delete the events of ${persons}`,
      done: `The events of ${persons} go within minutes`,
    },
  };
}

async function deletePersons(projectId: string, ids: readonly string[], scope: Scope) {
  const [id] = ids;
  if (ids.length === 1 && id !== undefined) {
    await call(
      api.DELETE("/api/projects/{project_id}/persons/{id}", {
        params: {
          path: { project_id: projectId, id },
          query: {
            delete_events: scope === "person" ? undefined : "true",
            keep_person: scope === "events" ? "true" : undefined,
          },
        },
      }),
    );
    return;
  }
  await call(
    api.POST("/api/projects/{project_id}/persons/bulk_delete", {
      params: { path: { project_id: projectId } },
      body: {
        ids: [...ids],
        delete_events: scope !== "person",
        keep_person: scope === "events",
      },
    }),
  );
}

/// Asks what exactly is to be deleted.
export function DeleteDialog({ projectId, persons, onClose, onDeleted }: DeleteDialogProps) {
  const [scope, setScope] = useState<Scope>("person");
  const single = persons.length === 1 ? persons[0] : undefined;
  const title = single ? single.name : count(persons.length, "person");
  const texts = single ? ONE : textsOfMany(title);
  const chosen = texts[scope];
  const remove = useMutation({
    mutationFn: () =>
      deletePersons(
        projectId,
        persons.map(({ uuid }) => uuid),
        scope,
      ),
    onSuccess: async () => {
      toast.success(chosen.done, { description: single?.name });
      onDeleted(scope);
      await (scope === "events" ? personChanged(projectId) : personsDeleted(projectId));
    },
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Delete ${title}?`}
      description="This cannot be undone."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
            {chosen.action}
          </Button>
        </>
      }
    >
      <RadioGroup
        aria-label="What is deleted"
        value={scope}
        onValueChange={(next) => setScope(next as Scope)}
        className="flex flex-col gap-2"
      >
        {(Object.keys(texts) as Scope[]).map((value) => (
          // biome-ignore lint/a11y/noLabelWithoutControl: Base UI's radio is the control.
          <label
            key={value}
            className="flex cursor-pointer gap-3 rounded-md border p-3 has-data-checked:border-accent"
          >
            <Radio.Root
              value={value}
              className="mt-0.5 grid size-4.5 shrink-0 place-items-center rounded-full border border-line-strong bg-surface data-checked:border-accent"
            >
              <Radio.Indicator className="size-2.5 rounded-full bg-accent" />
            </Radio.Root>
            <span>
              <span className="font-medium">{texts[value].label}</span>
              <span className="block text-muted">{texts[value].detail}</span>
            </span>
          </label>
        ))}
      </RadioGroup>
      {remove.isError && (
        <ErrorPanel
          error={remove.error}
          title={single ? "Could not delete it" : "Could not delete them"}
          className="py-3"
        />
      )}
    </Dialog>
  );
}
