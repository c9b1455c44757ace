import { type FormEvent, useState } from "react";
import { call, publicApi } from "@/api/client";
import { ApiError, errorMessage, fieldError } from "@/api/errors";
import { Button, Field, Input } from "@/ui";

export interface LogInFormProps {
  /// The e-mail address to start with.
  email?: string;
  onLoggedIn: (email: string) => void;
}

export function LogInForm({ email: given = "", onLoggedIn }: LogInFormProps) {
  const [email, setEmail] = useState(given);
  const [password, setPassword] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await call(publicApi.POST("/api/login", { body: { email: email.trim(), password } }));
      onLoggedIn(email.trim());
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  const general = error !== null && !(error instanceof ApiError && error.attr);
  return (
    <form onSubmit={submit} className="flex flex-col gap-3.5">
      {general && (
        <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 text-danger">
          {errorMessage(error)}
        </p>
      )}
      <Field label="E-mail" error={fieldError(error, "email")}>
        <Input
          type="email"
          name="email"
          autoComplete="username"
          required
          autoFocus={given === ""}
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
      </Field>
      <Field label="Password" error={fieldError(error, "password")}>
        <Input
          type="password"
          name="password"
          autoComplete="current-password"
          required
          autoFocus={given !== ""}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
      </Field>
      <Button type="submit" variant="primary" size="lg" busy={busy} className="mt-1">
        Log in
      </Button>
    </form>
  );
}
