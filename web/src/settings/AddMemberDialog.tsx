import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError, fieldError } from "@/api/errors";
import { uuid } from "@/api/ids";
import { MEMBER } from "@/api/permissions";
import { Button, Dialog, ErrorPanel, Field, Input, Select, toast } from "@/ui";
import { LEVELS } from "./levels";

type Member = Schemas["Member"];

export interface AddMemberDialogProps {
  organizationId: string;
  /// The adder's own level: nobody gives a higher one.
  levelMax: number;
  onClose: () => void;
  /// A new account comes with a link to set its password; an existing one keeps its own.
  onAdded: (member: Member, link: Schemas["SetupLinkItem"] | null) => void;
}

export function AddMemberDialog({
  organizationId,
  levelMax,
  onClose,
  onAdded,
}: AddMemberDialogProps) {
  const [email, setEmail] = useState("");
  const [firstName, setFirstName] = useState("");
  const [level, setLevel] = useState(String(MEMBER));
  const add = useMutation({
    mutationFn: async () => {
      const create = (password?: string) =>
        call(
          api.POST("/api/organizations/{organization_id}/members", {
            params: { path: { organization_id: organizationId } },
            body: {
              email: email.trim(),
              first_name: firstName.trim(),
              level: Number(level),
              password,
            },
          }),
        );
      let member: Member;
      try {
        // Nobody knows this one: the link replaces it.
        member = await create(`${uuid()}${uuid()}`);
      } catch (error) {
        // An existing account keeps its own.
        if (!(error instanceof ApiError && error.attr === "password")) throw error;
        return { member: await create(), link: null };
      }
      const link = await call(
        api.POST("/api/organizations/{organization_id}/members/{id}/setup_link", {
          params: { path: { organization_id: organizationId, id: member.user.uuid } },
        }),
      ).catch((error) => {
        toast.error(error, "They are a member now, but there is no link yet");
        return null;
      });
      return { member, link };
    },
    onSuccess: ({ member, link }) => onAdded(member, link),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  const { error } = add;
  const known = ["email", "first_name", "level"];
  const general = error && !(error instanceof ApiError && known.includes(error.attr ?? ""));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Add member"
      description="You get a link to send to them; nothing is mailed."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="add-member" busy={add.isPending}>
            Add member
          </Button>
        </>
      }
    >
      <form id="add-member" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="E-mail" error={fieldError(error, "email")}>
          <Input
            type="email"
            autoFocus
            required
            autoComplete="off"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
          />
        </Field>
        <Field label="First name" error={fieldError(error, "first_name")}>
          <Input
            maxLength={150}
            autoComplete="off"
            value={firstName}
            onChange={(event) => setFirstName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Level" error={fieldError(error, "level")}>
          <Select
            className="w-full"
            value={level}
            options={LEVELS.filter(({ value }) => Number(value) <= levelMax)}
            onChange={setLevel}
          />
        </Field>
      </form>
      {general && <ErrorPanel error={error} title="Could not add them" className="py-3" />}
    </Dialog>
  );
}
