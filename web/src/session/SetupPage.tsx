import { useRouter } from "@tanstack/react-router";
import { type FormEvent, useMemo, useState } from "react";
import { call, publicApi, type Schemas } from "@/api/client";
import { ApiError, errorMessage, fieldError } from "@/api/errors";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { Button, Combobox, Field, Input } from "@/ui";
import { SessionFrame } from "./SessionFrame";

const PASSWORD_CHARS_MIN = 8;

function zones(): string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];
}

type Fields = Pick<
  Schemas["CompleteSetup"],
  "email" | "first_name" | "organization" | "password" | "project" | "timezone"
>;

/// Completes a setup link and enters. The token is in the fragment, which reaches no log.
function useSetup() {
  const router = useRouter();
  const token = useMemo(() => window.location.hash.slice(1), []);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const complete = async (fields: Fields) => {
    setBusy(true);
    setError(null);
    try {
      await call(publicApi.POST("/api/setup", { body: { token, ...fields } }));
      await queryClient.fetchQuery({ ...meQuery, staleTime: 0 });
      router.history.replace("/");
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return { token, error, busy, complete };
}

function LinkIncomplete() {
  return (
    <p className="text-muted">
      Open the whole link, with the part after <code className="font-mono">#</code>. To get a new
      one, run <code className="font-mono whitespace-nowrap">hedgerow admin setup-link</code> on the
      server.
    </p>
  );
}

/// What is wrong with the link itself, rather than with a field.
function GeneralError({ error, fields }: { error: unknown; fields: readonly string[] }) {
  if (error === null) return null;
  if (error instanceof ApiError && error.attr && fields.includes(error.attr)) return null;
  return (
    <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 text-danger">
      {errorMessage(error)}
    </p>
  );
}

function PasswordField(props: {
  error: unknown;
  value: string;
  onChange: (value: string) => void;
  autoFocus?: boolean;
}) {
  return (
    <Field
      label="Password"
      hint={`At least ${PASSWORD_CHARS_MIN} characters.`}
      error={fieldError(props.error, "password")}
    >
      <Input
        type="password"
        name="password"
        autoComplete="new-password"
        required
        autoFocus={props.autoFocus}
        minLength={PASSWORD_CHARS_MIN}
        value={props.value}
        onChange={(event) => props.onChange(event.currentTarget.value)}
      />
    </Field>
  );
}

/// The link that `hedgerow admin setup-link` prints for an account: a new password.
export function SetPasswordPage() {
  const { token, error, busy, complete } = useSetup();
  const [password, setPassword] = useState("");
  return (
    <SessionFrame title="Set your password">
      {token ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void complete({ password });
          }}
          className="flex flex-col gap-3.5"
        >
          <GeneralError error={error} fields={["password"]} />
          <PasswordField error={error} value={password} onChange={setPassword} autoFocus />
          <Button type="submit" variant="primary" size="lg" busy={busy} className="mt-1">
            Save and log in
          </Button>
        </form>
      ) : (
        <LinkIncomplete />
      )}
    </SessionFrame>
  );
}

/// The link that the server prints at its first start.
export function SetupPage() {
  const { token, error, busy, complete } = useSetup();
  const [fields, setFields] = useState({
    first_name: "",
    email: "",
    password: "",
    organization: "",
    project: "",
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
  });
  const zoneOptions = useMemo(() => zones().map((zone) => ({ value: zone, label: zone })), []);

  const bind = (name: keyof typeof fields) => ({
    name,
    value: fields[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      setFields((before) => ({ ...before, [name]: value }));
    },
  });

  const submit = (event: FormEvent) => {
    event.preventDefault();
    void complete({ ...fields, email: fields.email.trim() });
  };

  if (!token) {
    return (
      <SessionFrame title="Set up Hedgerow">
        <LinkIncomplete />
      </SessionFrame>
    );
  }
  return (
    <SessionFrame title="Set up Hedgerow">
      <form onSubmit={submit} className="flex flex-col gap-3.5">
        <GeneralError error={error} fields={Object.keys(fields)} />
        <Field label="Your name" error={fieldError(error, "first_name")}>
          <Input autoComplete="given-name" required autoFocus {...bind("first_name")} />
        </Field>
        <Field label="E-mail" error={fieldError(error, "email")}>
          <Input type="email" autoComplete="username" required {...bind("email")} />
        </Field>
        <PasswordField
          error={error}
          value={fields.password}
          onChange={(password) => setFields((before) => ({ ...before, password }))}
        />
        <Field label="Organization" error={fieldError(error, "organization")}>
          <Input
            autoComplete="organization"
            required
            placeholder="Acme"
            {...bind("organization")}
          />
        </Field>
        <Field
          label="Project"
          hint="What you measure, such as one app or site. You can add more later."
          error={fieldError(error, "project")}
        >
          <Input required placeholder="Web shop" {...bind("project")} />
        </Field>
        <Field
          label="Time zone"
          hint="Days and weeks in charts begin by this clock."
          error={fieldError(error, "timezone")}
        >
          <Combobox
            label="Time zone"
            className="w-full"
            options={zoneOptions}
            value={fields.timezone}
            onChange={(timezone) => setFields((before) => ({ ...before, timezone }))}
          />
        </Field>
        <Button type="submit" variant="primary" size="lg" busy={busy} className="mt-1">
          Start
        </Button>
      </form>
    </SessionFrame>
  );
}
