import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { Button, Dialog, ErrorPanel, Field, Select, toast } from "@/ui";
import { count, exact } from "@/ui/format";
import { type Person, personChanged } from "./personApi";

export interface SplitDialogProps {
  projectId: string;
  person: Person;
  /// The ids that leave; without them all but one do.
  leaving: readonly string[] | null;
  onClose: () => void;
}

const SHOWN_MAX = 8;

/// Shows what a split makes of a person before it does it.
export function SplitDialog({ projectId, person, leaving, onClose }: SplitDialogProps) {
  const ids = person.distinct_ids;
  const [main, setMain] = useState(ids[0] ?? "");
  const left = leaving ?? ids.filter((id) => id !== main);
  const stays = ids.filter((id) => !left.includes(id));
  const split = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/persons/{id}/split", {
          params: { path: { project_id: projectId, id: person.uuid } },
          body: leaving ? { distinct_ids_to_split: [...leaving] } : { main_distinct_id: main },
        }),
      ),
    onSuccess: async () => {
      toast.success(`Split off ${count(left.length, "id")}`);
      onClose();
      await personChanged(projectId);
    },
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Split distinct ids off"
      description="This cannot be undone, but the persons can be merged again."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            busy={split.isPending}
            disabled={left.length === 0}
            onClick={() => split.mutate()}
          >
            {`Make ${count(left.length, "new person", "new persons")}`}
          </Button>
        </>
      }
    >
      {!leaving && ids.length > 2 && (
        <Field label="The id that stays" className="mb-3">
          <Select
            label="The id that stays"
            value={main}
            onChange={setMain}
            options={ids.slice(0, 200).map((id) => ({ value: id, label: id }))}
            className="max-w-full"
          />
        </Field>
      )}
      <div className="grid gap-3 sm:grid-cols-2">
        <section className="rounded-md border p-3">
          <h3 className="font-medium wrap-anywhere">{person.name}</h3>
          <p className="mb-1 text-xs text-muted">
            Keeps all properties and {count(stays.length, "id")}.
          </p>
          <IdList ids={stays} />
        </section>
        <section className="rounded-md border p-3">
          <h3 className="font-medium">{count(left.length, "new person", "new persons")}</h3>
          <p className="mb-1 text-xs text-muted">
            One for each id, without properties until its app sends some.
          </p>
          <IdList ids={left} />
        </section>
      </div>
      <p className="mt-3 text-muted">
        Events go with their id, also those that are stored already: numbers of persons in charts
        change.
      </p>
      {split.isError && (
        <ErrorPanel error={split.error} title="Could not split the person" className="py-3" />
      )}
    </Dialog>
  );
}

function IdList({ ids }: { ids: readonly string[] }) {
  return (
    <ul className="font-mono text-xs leading-5">
      {ids.slice(0, SHOWN_MAX).map((id) => (
        <li key={id} className="truncate" title={id}>
          {id}
        </li>
      ))}
      {ids.length > SHOWN_MAX && (
        <li className="font-sans text-muted">and {exact(ids.length - SHOWN_MAX)} more</li>
      )}
    </ul>
  );
}
