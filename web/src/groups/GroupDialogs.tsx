import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { fieldError } from "@/api/errors";
import { queryClient } from "@/api/queryClient";
import { groupTypeName } from "@/filters/definitions";
import { Button, Dialog, ErrorPanel, Field, Input } from "@/ui";

interface GroupDialogProps {
  projectId: string;
  type: Schemas["GroupType"];
  onClose: () => void;
}

const KEY_CHARS_MAX = 400;

/// Makes a group before its first event.
export function NewGroupDialog({ projectId, type, onClose }: GroupDialogProps) {
  const navigate = useNavigate();
  const [key, setKey] = useState("");
  const [name, setName] = useState("");
  const index = String(type.group_type_index);
  const one = groupTypeName(type);
  const create = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/groups", {
          params: { path: { project_id: projectId } },
          body: {
            group_type_index: type.group_type_index,
            group_key: key.trim(),
            group_properties: name.trim() ? { name: name.trim() } : {},
          },
        }),
      ),
    onSuccess: async (group) => {
      await queryClient.invalidateQueries({ queryKey: ["groups", projectId] });
      await navigate({
        to: "/project/$projectId/groups/$index/$key",
        params: { projectId, index, key: group.group_key },
      });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const keyError = fieldError(create.error, "group_key");
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`New ${one}`}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            type="submit"
            form="new-group"
            busy={create.isPending}
            disabled={key.trim() === ""}
          >
            Create
          </Button>
        </>
      }
    >
      <form id="new-group" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="Key" hint="As apps name it in their events, such as an id." error={keyError}>
          <Input
            autoFocus
            maxLength={KEY_CHARS_MAX}
            value={key}
            onChange={(event) => setKey(event.currentTarget.value)}
          />
        </Field>
        <Field label="Name">
          <Input value={name} onChange={(event) => setName(event.currentTarget.value)} />
        </Field>
      </form>
      {create.isError && !keyError && (
        <ErrorPanel error={create.error} title="Could not create it" className="py-3" />
      )}
    </Dialog>
  );
}

/// What a type of group is called in the interface.
export function RenameTypeDialog({ projectId, type, onClose }: GroupDialogProps) {
  const [singular, setSingular] = useState(type.name_singular ?? "");
  const [plural, setPlural] = useState(type.name_plural ?? "");
  const save = useMutation({
    mutationFn: () =>
      call(
        api.PATCH("/api/projects/{project_id}/groups_types/update_metadata", {
          params: { path: { project_id: projectId } },
          body: [
            {
              group_type_index: type.group_type_index,
              name_singular: singular.trim() || null,
              name_plural: plural.trim() || null,
            },
          ],
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["groups_types", projectId] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Name groups of the type ${type.group_type}`}
      description="Only for this interface: apps go on sending the type."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="rename-type" busy={save.isPending}>
            Save
          </Button>
        </>
      }
    >
      <form id="rename-type" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="One" error={fieldError(save.error, "name_singular")}>
          <Input
            autoFocus
            placeholder={type.group_type}
            value={singular}
            onChange={(event) => setSingular(event.currentTarget.value)}
          />
        </Field>
        <Field label="Many" error={fieldError(save.error, "name_plural")}>
          <Input
            placeholder={groupTypeName({ ...type, name_plural: null }, true)}
            value={plural}
            onChange={(event) => setPlural(event.currentTarget.value)}
          />
        </Field>
      </form>
      {save.isError && <ErrorPanel error={save.error} title="Could not save" className="py-3" />}
    </Dialog>
  );
}
