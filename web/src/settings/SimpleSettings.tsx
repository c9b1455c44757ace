import { useState } from "react";
import { errorMessage } from "@/api/errors";
import { useProject } from "@/shell/useProject";
import { Button, Card, Field, Input, Select, Switch, Textarea, toast } from "@/ui";
import { linesValue, readLines, type SettingsGroup, type SimpleSetting } from "./projectSettings";
import { type ProjectChange, useProjectChange } from "./useProjectChange";

export function SettingsCard({ group }: { group: SettingsGroup }) {
  return (
    <Card title={group.title} description={group.description}>
      <div className="flex flex-col gap-3.5">
        {group.settings.map((setting) => (
          <SettingRow key={setting.key} setting={setting} />
        ))}
      </div>
    </Card>
  );
}

/// A setting that is saved as it is changed; text by a button.
function SettingRow({ setting }: { setting: SimpleSetting }) {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const { key, label, hint } = setting;
  const value = project[key];
  const save = (next: unknown) =>
    change.mutate({ [key]: next } as ProjectChange, {
      onError: (error) => toast.error(error, `Could not change “${label}”`),
    });
  switch (setting.kind) {
    case "switch":
      return (
        <div>
          <Switch
            label={label}
            checked={value === true}
            disabled={change.isPending}
            onChange={save}
          />
          {hint && <p className="pl-11 text-xs text-muted">{hint}</p>}
        </div>
      );
    case "choice":
      return (
        <Field label={label} hint={hint}>
          <Select
            className="w-full sm:w-60"
            value={value === null ? "" : String(value)}
            options={setting.options}
            disabled={change.isPending}
            onChange={(next) => save(next === "" ? null : Number(next))}
          />
        </Field>
      );
    case "text":
    case "lines": {
      const isList = setting.kind === "lines";
      return (
        <TextSetting
          label={label}
          hint={hint ?? (isList ? "One per line." : undefined)}
          rows={isList ? 2 : undefined}
          placeholder={isList ? setting.placeholder : undefined}
          saved={isList ? linesValue(value) : String(value ?? "")}
          busy={change.isPending}
          onSave={(text) => save(isList ? readLines(text) : text.trim())}
        />
      );
    }
  }
}

export interface TextSettingProps {
  label: string;
  hint?: string;
  /// Several lines; without it one.
  rows?: number;
  placeholder?: string;
  saved: string;
  busy: boolean;
  disabled?: boolean;
  error?: unknown;
  onSave: (text: string) => void;
}

/// A text whose buttons appear once it differs from what is saved.
export function TextSetting(props: TextSettingProps) {
  const { label, hint, rows, placeholder, saved, busy, disabled, error, onSave } = props;
  const [draft, setDraft] = useState<string | null>(null);
  const shared = {
    value: draft ?? saved,
    placeholder,
    readOnly: disabled,
    onChange: (event: { currentTarget: { value: string } }) => setDraft(event.currentTarget.value),
  };
  const changed = draft !== null && draft !== saved;
  return (
    <form
      className="flex flex-col items-start gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (changed) onSave(draft);
      }}
    >
      <Field
        label={label}
        hint={hint}
        error={error && changed ? errorMessage(error) : null}
        className="w-full sm:max-w-md"
      >
        {rows ? <Textarea rows={rows} {...shared} /> : <Input {...shared} />}
      </Field>
      {changed && (
        <div className="flex gap-2">
          <Button size="sm" variant="primary" type="submit" busy={busy}>
            Save
          </Button>
          <Button size="sm" onClick={() => setDraft(null)}>
            Discard
          </Button>
        </div>
      )}
    </form>
  );
}
