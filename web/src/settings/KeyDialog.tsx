import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError, fieldError } from "@/api/errors";
import { useMe } from "@/api/me";
import { Button, Dialog, ErrorPanel, Field, Input, MultiCombobox, Select } from "@/ui";
import {
  type Access,
  accessTo,
  keysKey,
  OBJECTS,
  type Preset,
  presetOf,
  readScopes,
  withAccess,
} from "./scopes";

type Key = Schemas["PersonalKey"];

const LABEL_CHARS_MAX = 40;
const PRESETS: readonly { value: Preset; label: string }[] = [
  { value: "read", label: "Read everything" },
  { value: "all", label: "Read and change everything" },
  { value: "chosen", label: "Choose for each kind" },
];
const LEVELS: readonly { value: Access; label: string }[] = [
  { value: "none", label: "No access" },
  { value: "read", label: "Read" },
  { value: "write", label: "Read and change" },
];
const PLACES = [
  { value: "all", label: "All your projects" },
  { value: "projects", label: "Chosen projects" },
  { value: "organizations", label: "Chosen organizations" },
] as const;
type Place = (typeof PLACES)[number]["value"];

export interface KeyDialogProps {
  /// The key to change; a new one without it.
  edited?: Key;
  onClose: () => void;
  /// With the key's value.
  onCreated: (key: Key) => void;
}

export function KeyDialog({ edited, onClose, onCreated }: KeyDialogProps) {
  const me = useMe();
  const client = useQueryClient();
  const [label, setLabel] = useState(edited?.label ?? "");
  const [scopes, setScopes] = useState<readonly string[]>(edited?.scopes ?? readScopes());
  const [preset, setPreset] = useState<Preset>(presetOf(scopes));
  const [projects, setProjects] = useState<readonly string[]>(
    (edited?.scoped_teams ?? []).map(String),
  );
  const [organizations, setOrganizations] = useState<readonly string[]>(
    edited?.scoped_organizations ?? [],
  );
  const [place, setPlace] = useState<Place>(
    projects.length > 0 ? "projects" : organizations.length > 0 ? "organizations" : "all",
  );
  const save = useMutation({
    mutationFn: () => {
      const body = {
        label: label.trim(),
        scopes: [...scopes],
        scoped_teams: place === "projects" ? projects.map(Number) : [],
        scoped_organizations: place === "organizations" ? [...organizations] : [],
      };
      return edited
        ? call(
            api.PATCH("/api/personal_api_keys/{id}", {
              params: { path: { id: edited.id } },
              body,
            }),
          )
        : call(api.POST("/api/personal_api_keys", { body }));
    },
    onSuccess: (key) => {
      void client.invalidateQueries({ queryKey: keysKey });
      if (edited) onClose();
      else onCreated(key);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const choosePreset = (next: Preset) => {
    setPreset(next);
    if (next === "all") setScopes(["*"]);
    else if (next === "read" || scopes.includes("*")) setScopes(readScopes());
  };
  const chosen = place === "projects" ? projects : organizations;
  const incomplete =
    scopes.length === 0
      ? "Choose what the key may do."
      : place !== "all" && chosen.length === 0
        ? "Choose where the key works."
        : undefined;
  const { error } = save;
  const known = ["label", "scopes", "scoped_teams", "scoped_organizations"];
  const general = error && !(error instanceof ApiError && known.includes(error.attr ?? ""));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={edited ? "Edit key" : "New personal API key"}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            type="submit"
            form="personal-key"
            busy={save.isPending}
            disabledReason={incomplete}
          >
            {edited ? "Save" : "Create key"}
          </Button>
        </>
      }
    >
      <form id="personal-key" className="flex flex-col gap-3.5" onSubmit={submit}>
        <Field label="Name" hint="The program that uses it." error={fieldError(error, "label")}>
          <Input
            autoFocus
            required
            maxLength={LABEL_CHARS_MAX}
            value={label}
            placeholder="Nightly report"
            onChange={(event) => setLabel(event.currentTarget.value)}
          />
        </Field>
        <Field label="Access" error={fieldError(error, "scopes")}>
          <Select className="w-full" value={preset} options={PRESETS} onChange={choosePreset} />
        </Field>
        {preset === "chosen" && (
          <fieldset className="rounded-md border px-3 py-1.5">
            <legend className="px-1 text-xs text-muted">For each kind</legend>
            <ul className="divide-y">
              {OBJECTS.map(({ object, label: name }) => (
                <li key={object} className="flex min-h-9 items-center justify-between gap-2">
                  <span>{name}</span>
                  <Select
                    label={`Access to ${name.toLowerCase()}`}
                    size="sm"
                    value={accessTo(scopes, object)}
                    options={LEVELS}
                    onChange={(access) => setScopes(withAccess(scopes, object, access))}
                  />
                </li>
              ))}
            </ul>
          </fieldset>
        )}
        <Field
          label="Projects"
          error={fieldError(error, "scoped_teams") ?? fieldError(error, "scoped_organizations")}
        >
          <Select className="w-full" value={place} options={PLACES} onChange={setPlace} />
        </Field>
        {place === "projects" && (
          <MultiCombobox
            label="Projects"
            className="w-full"
            value={projects}
            options={(me.organization?.teams ?? []).map(({ id, name }) => ({
              value: String(id),
              label: name,
            }))}
            onChange={setProjects}
          />
        )}
        {place === "organizations" && (
          <MultiCombobox
            label="Organizations"
            className="w-full"
            value={organizations}
            options={me.organizations.map(({ id, name }) => ({ value: id, label: name }))}
            onChange={setOrganizations}
          />
        )}
      </form>
      {general && <ErrorPanel error={error} title="Could not save the key" className="py-3" />}
    </Dialog>
  );
}
