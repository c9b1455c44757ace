import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError, fieldError } from "@/api/errors";
import { Button, Dialog, ErrorPanel, Field, Input, Select } from "@/ui";

const FLAG_LEVELS = [
  { value: "37", label: "Edit all flags" },
  { value: "21", label: "View flags, and edit those given to the role" },
] as const;

export interface RoleDialogProps {
  organizationId: string;
  /// The role to change; a new one without it.
  role?: Schemas["Role"];
  onClose: () => void;
}

export function RoleDialog({ organizationId, role, onClose }: RoleDialogProps) {
  const client = useQueryClient();
  const [name, setName] = useState(role?.name ?? "");
  const [level, setLevel] = useState<"21" | "37">(
    role?.feature_flags_access_level === 21 ? "21" : "37",
  );
  const save = useMutation({
    mutationFn: () => {
      const body = { name: name.trim(), feature_flags_access_level: Number(level) };
      return role
        ? call(
            api.PATCH("/api/organizations/{organization_id}/roles/{role_id}", {
              params: { path: { organization_id: organizationId, role_id: role.id } },
              body,
            }),
          )
        : call(
            api.POST("/api/organizations/{organization_id}/roles", {
              params: { path: { organization_id: organizationId } },
              body,
            }),
          );
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["roles", organizationId] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const { error } = save;
  const known = ["name", "feature_flags_access_level"];
  const general = error && !(error instanceof ApiError && known.includes(error.attr ?? ""));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={role ? "Edit role" : "New role"}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="role" busy={save.isPending}>
            {role ? "Save" : "Create role"}
          </Button>
        </>
      }
    >
      <form id="role" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="Name" error={fieldError(error, "name")}>
          <Input
            autoFocus
            required
            maxLength={200}
            value={name}
            placeholder="Support"
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field
          label="Flags"
          hint="Counts where the organization restricts who edits flags."
          error={fieldError(error, "feature_flags_access_level")}
        >
          <Select className="w-full" value={level} options={FLAG_LEVELS} onChange={setLevel} />
        </Field>
      </form>
      {general && <ErrorPanel error={error} title="Could not save the role" className="py-3" />}
    </Dialog>
  );
}
