import { Lock } from "lucide-react";
import { Button, Card, Checkbox, cx, Field, Input, Switch, Textarea } from "@/ui";
import { type FlagDraft, type FlagKind, KIND_LABELS, kindOf, withKind } from "../model/draft";
import type { DraftProblem } from "../model/problems";
import { Conditions } from "./Conditions";
import { FlagSettings } from "./FlagSettings";
import { Payload } from "./Payload";
import { Variants } from "./Variants";

export interface FlagFormProps {
  draft: FlagDraft;
  flagId: number | null;
  edit: (draft: FlagDraft, topic?: string) => void;
  problems: readonly DraftProblem[];
  /// Why nothing can be changed.
  readOnly?: string;
  /// Problems are shown at their fields once somebody tried to save.
  showProblems: boolean;
}

const HINTS: Record<FlagKind, string> = {
  boolean: "On or off.",
  multivariate: "One of several values, by shares.",
  remote: "The same JSON for everybody.",
};
const KEY_CHARS_MAX = 400;
const NAME_CHARS_MAX = 16_384;

/// The settings of a flag.
export function FlagForm({ draft, flagId, edit, problems, readOnly, showProblems }: FlagFormProps) {
  const disabled = readOnly !== undefined;
  const kind = kindOf(draft);
  const shown = (at: string) =>
    showProblems ? problems.find((problem) => problem.at === at)?.text : undefined;
  return (
    <div className="grid gap-4 lg:grid-cols-[minmax(0,1fr)_18rem]">
      <div className="flex min-w-0 flex-col gap-4">
        {readOnly && (
          <p className="flex items-center gap-2 rounded-md bg-sunken px-3 py-2 text-muted">
            <Lock className="size-4 shrink-0" aria-hidden />
            {readOnly}
          </p>
        )}
        <Card>
          <div className="flex flex-col gap-3">
            <Field
              label="Key"
              hint="What code asks for. Letters, digits, - and _."
              error={
                draft.key === "" ? shown("key") : problems.find(({ at }) => at === "key")?.text
              }
            >
              <Input
                className="max-w-md font-mono"
                maxLength={KEY_CHARS_MAX}
                autoComplete="off"
                spellCheck={false}
                placeholder="new-checkout"
                value={draft.key}
                disabled={disabled}
                onChange={(event) => edit({ ...draft, key: event.currentTarget.value }, "key")}
              />
            </Field>
            <Field label="Description">
              <Textarea
                rows={2}
                maxLength={NAME_CHARS_MAX}
                placeholder="What it switches, and until when"
                value={draft.name}
                disabled={disabled}
                onChange={(event) => edit({ ...draft, name: event.currentTarget.value }, "name")}
              />
            </Field>
            <KindChoice
              kind={kind}
              disabled={disabled}
              onChange={(next) => edit(withKind(draft, next))}
            />
          </div>
        </Card>
        {kind === "multivariate" ? (
          <Variants draft={draft} edit={edit} problems={problems} disabled={disabled} />
        ) : (
          <PayloadCard draft={draft} edit={edit} disabled={disabled} />
        )}
        {kind === "remote" ? (
          <p className="rounded-md bg-sunken px-3 py-2 text-muted">
            A remote config has no conditions: everybody who asks gets its payload.
          </p>
        ) : (
          <Conditions
            draft={draft}
            flagId={flagId}
            edit={edit}
            problems={showProblems ? problems : []}
            disabled={disabled}
          />
        )}
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="Settings">
          <div className="flex flex-col gap-4">
            <Switch
              label={draft.active ? "On" : "Off: everybody gets false"}
              checked={draft.active}
              disabled={disabled}
              onChange={(active) =>
                edit({ ...draft, active, archived: active ? false : draft.archived })
              }
            />
            <FlagSettings
              draft={draft}
              edit={edit}
              disabled={disabled}
              problem={problems.find(({ at }) => at === "ensure_experience_continuity")?.text}
            />
          </div>
        </Card>
      </div>
    </div>
  );
}

function KindChoice({
  kind,
  disabled,
  onChange,
}: {
  kind: FlagKind;
  disabled: boolean;
  onChange: (kind: FlagKind) => void;
}) {
  return (
    <fieldset disabled={disabled}>
      <legend className="mb-1 text-[0.8125rem] font-medium">Kind</legend>
      <div className="grid gap-2 sm:grid-cols-3">
        {(Object.keys(KIND_LABELS) as FlagKind[]).map((value) => (
          <label
            key={value}
            className={cx(
              "rounded-md border px-3 py-2 has-focus-visible:outline-2 has-focus-visible:outline-accent",
              kind === value ? "border-accent bg-accent-soft" : "hover:bg-hover",
              disabled ? "cursor-not-allowed" : "cursor-pointer",
            )}
          >
            <input
              type="radio"
              name="kind"
              className="sr-only"
              value={value}
              checked={kind === value}
              onChange={() => onChange(value)}
            />
            <span className="block font-medium">{KIND_LABELS[value]}</span>
            <span className="block text-xs text-muted">{HINTS[value]}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/// The only key of the payloads of a flag without variants.
const PAYLOAD = "true";

function PayloadCard({
  draft,
  edit,
  disabled,
}: {
  draft: FlagDraft;
  edit: FlagFormProps["edit"];
  disabled: boolean;
}) {
  const payload = draft.filters.payloads?.[PAYLOAD];
  const isRemote = draft.is_remote_configuration;
  const set = (next: string | undefined) =>
    edit(
      {
        ...draft,
        filters: { ...draft.filters, payloads: next === undefined ? {} : { [PAYLOAD]: next } },
      },
      "payload",
    );
  if (!isRemote && disabled && !payload) return null;
  if (!isRemote && payload === undefined) {
    return (
      <div>
        <Button onClick={() => set("{}")}>Add payload</Button>
        <p className="mt-1 text-xs text-muted">JSON that everybody gets for whom it is on.</p>
      </div>
    );
  }
  return (
    <Card title="Payload" description={isRemote ? "The configuration, as JSON." : undefined}>
      <div className="flex flex-col gap-3">
        <Payload label="Payload" hideLabel value={payload} disabled={disabled} onChange={set} />
        {isRemote && (
          <Checkbox
            label="Encrypt it: it is read with a personal API key only, and never shown again"
            checked={draft.has_encrypted_payloads}
            disabled={disabled}
            onChange={(encrypted) => edit({ ...draft, has_encrypted_payloads: encrypted })}
          />
        )}
      </div>
    </Card>
  );
}
