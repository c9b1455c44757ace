import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError, errorMessage, fieldError } from "@/api/errors";
import { meQuery, useMe } from "@/api/me";
import { logOut } from "@/session/logOut";
import { setTheme, type Theme, useTheme } from "@/shell/theme";
import { useSingleKeys } from "@/shell/useGlobalKeys";
import { Button, Card, Field, Input, Select, Switch, toast } from "@/ui";
import { SettingsFrame } from "./SettingsFrame";

type Change = Schemas["UserFields"] & Schemas["UserSettingsChange"];

const PASSWORD_CHARS_MIN = 8;
const THEMES: readonly { value: Theme; label: string }[] = [
  { value: "system", label: "Same as the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];
const JOBS = [
  "engineering",
  "data",
  "product",
  "founder",
  "leadership",
  "management",
  "marketing",
  "sales",
  "other",
] as const;
type Job = (typeof JOBS)[number];

function useAccountChange(said: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Change) =>
      call(api.PATCH("/api/users/{id}", { params: { path: { id: "@me" } }, body })),
    onSuccess: (me) => {
      client.setQueryData(meQuery.queryKey, me);
      toast.success(said);
    },
  });
}

/// An error that no field shows.
function General({ error, fields }: { error: unknown; fields: readonly string[] }) {
  if (!error || (error instanceof ApiError && fields.includes(error.attr ?? ""))) return null;
  return (
    <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 text-danger">
      {errorMessage(error)}
    </p>
  );
}

export function AccountPage() {
  return (
    <SettingsFrame title="Your account">
      <Profile />
      <Email />
      <Password />
      <Browser />
    </SettingsFrame>
  );
}

function Profile() {
  const me = useMe();
  const change = useAccountChange("Saved");
  const [first, setFirst] = useState(me.first_name);
  const [last, setLast] = useState(me.last_name);
  const [role, setRole] = useState<Job | "">(me.role_at_organization ?? "");
  const isChanged =
    first !== me.first_name || last !== me.last_name || role !== (me.role_at_organization ?? "");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate({
      first_name: first.trim(),
      last_name: last.trim(),
      role_at_organization: role || null,
    });
  };
  const { error } = change;
  return (
    <Card title="Name">
      <form className="flex flex-col items-start gap-3" onSubmit={submit}>
        <General error={error} fields={["first_name", "last_name"]} />
        <div className="grid w-full gap-3 sm:max-w-lg sm:grid-cols-2">
          <Field label="First name" error={fieldError(error, "first_name")}>
            <Input
              autoComplete="given-name"
              maxLength={150}
              value={first}
              onChange={(event) => setFirst(event.currentTarget.value)}
            />
          </Field>
          <Field label="Last name" error={fieldError(error, "last_name")}>
            <Input
              autoComplete="family-name"
              maxLength={150}
              value={last}
              onChange={(event) => setLast(event.currentTarget.value)}
            />
          </Field>
          <Field label="Your job">
            <Select
              className="w-full"
              value={role}
              options={[
                { value: "", label: "Not set" },
                ...JOBS.map((value) => ({
                  value,
                  label: value.charAt(0).toUpperCase() + value.slice(1),
                })),
              ]}
              onChange={(next) => setRole(next as Job | "")}
            />
          </Field>
        </div>
        <Button variant="primary" type="submit" busy={change.isPending} disabled={!isChanged}>
          Save name
        </Button>
      </form>
    </Card>
  );
}

function Email() {
  const me = useMe();
  const change = useAccountChange("The e-mail address is changed");
  const [email, setEmail] = useState(me.email);
  const [password, setPassword] = useState("");
  const isChanged = email.trim().toLowerCase() !== me.email.toLowerCase();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate(
      { email: email.trim(), current_password: password },
      { onSuccess: () => setPassword("") },
    );
  };
  const { error } = change;
  return (
    <Card title="E-mail address" description="You log in with it.">
      <form className="flex flex-col items-start gap-3" onSubmit={submit}>
        <General error={error} fields={["email", "current_password"]} />
        <Field label="E-mail" error={fieldError(error, "email")} className="w-full sm:max-w-sm">
          <Input
            type="email"
            required
            autoComplete="username"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
          />
        </Field>
        {isChanged && (
          <Field
            label="Your password, to confirm"
            error={fieldError(error, "current_password")}
            className="w-full sm:max-w-sm"
          >
            <Input
              type="password"
              required
              autoComplete="current-password"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
            />
          </Field>
        )}
        <Button variant="primary" type="submit" busy={change.isPending} disabled={!isChanged}>
          Change e-mail
        </Button>
      </form>
    </Card>
  );
}

function Password() {
  const me = useMe();
  const change = useAccountChange("The password is changed");
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate(
      { password, current_password: current },
      {
        onSuccess: () => {
          setCurrent("");
          setPassword("");
        },
      },
    );
  };
  const { error } = change;
  return (
    <Card title="Password">
      <form className="flex flex-col items-start gap-3" onSubmit={submit}>
        <General error={error} fields={["password", "current_password"]} />
        {/* Password managers need to know whose it is. */}
        <input type="hidden" autoComplete="username" value={me.email} readOnly />
        <Field
          label="Current password"
          error={fieldError(error, "current_password")}
          className="w-full sm:max-w-sm"
        >
          <Input
            type="password"
            required
            autoComplete="current-password"
            value={current}
            onChange={(event) => setCurrent(event.currentTarget.value)}
          />
        </Field>
        <Field
          label="New password"
          hint={`At least ${PASSWORD_CHARS_MIN} characters.`}
          error={fieldError(error, "password")}
          className="w-full sm:max-w-sm"
        >
          <Input
            type="password"
            required
            minLength={PASSWORD_CHARS_MIN}
            autoComplete="new-password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
          />
        </Field>
        <Button
          variant="primary"
          type="submit"
          busy={change.isPending}
          disabled={current === "" || password === ""}
        >
          Change password
        </Button>
      </form>
    </Card>
  );
}

function Browser() {
  const theme = useTheme();
  const [singleKeys, setSingleKeys] = useSingleKeys();
  return (
    <Card title="This browser" description="Saved in this browser only.">
      <div className="flex flex-col items-start gap-3.5">
        <Field label="Theme" className="w-full sm:max-w-60">
          <Select className="w-full" value={theme} options={THEMES} onChange={setTheme} />
        </Field>
        <Switch label="Single-key shortcuts" checked={singleKeys} onChange={setSingleKeys} />
        <Button onClick={logOut}>Log out</Button>
      </div>
    </Card>
  );
}
