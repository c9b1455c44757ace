import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { dashboardsQuery } from "@/insights/insightApi";
import { TagsInput } from "@/insights/TagsInput";
import { useProject } from "@/shell/useProject";
import { Checkbox, Field, MultiCombobox, Select } from "@/ui";
import { type FlagDraft, kindOf } from "../model/draft";

export interface FlagSettingsProps {
  draft: FlagDraft;
  edit: (draft: FlagDraft, topic?: string) => void;
  disabled: boolean;
  problem?: string;
}

type Runtime = Schemas["EvaluationRuntime"];
type Bucketing = Schemas["BucketingIdentifier"];

const RUNTIMES: { value: Runtime; label: string; hint: string }[] = [
  { value: "all", label: "Everywhere", hint: "Clients and servers" },
  { value: "client", label: "Clients only", hint: "Servers never get it" },
  { value: "server", label: "Servers only", hint: "Browsers and apps never get it" },
];
const BUCKETINGS: { value: Bucketing; label: string; hint: string }[] = [
  { value: "distinct_id", label: "Person", hint: "The same value wherever they log in" },
  { value: "device_id", label: "Device", hint: "The same value before and after log-in" },
];

/// Where a flag is evaluated, and what it is filed under.
export function FlagSettings({ draft, edit, disabled, problem }: FlagSettingsProps) {
  const { projectId } = useProject();
  const dashboards = useQuery(dashboardsQuery(projectId));
  const isRemote = kindOf(draft) === "remote";
  const chosen = draft.analytics_dashboards.map(String);
  return (
    <>
      <Field label="Evaluated">
        <Select
          value={draft.evaluation_runtime ?? "all"}
          disabled={disabled}
          onChange={(runtime) => edit({ ...draft, evaluation_runtime: runtime })}
          options={RUNTIMES}
        />
      </Field>
      {!isRemote && (
        <>
          <Field label="Bucket by">
            <Select
              value={draft.bucketing_identifier ?? "distinct_id"}
              disabled={disabled}
              onChange={(identifier) => edit({ ...draft, bucketing_identifier: identifier })}
              options={BUCKETINGS}
            />
          </Field>
          <div>
            <Checkbox
              label="Keep the value when somebody logs in"
              checked={draft.ensure_experience_continuity}
              disabled={disabled}
              onChange={(keep) => edit({ ...draft, ensure_experience_continuity: keep })}
            />
            <p className="mt-0.5 ml-6.5 text-xs text-muted">
              Costs a look-up for each request, and rules local evaluation out.
            </p>
            {problem && <p className="mt-0.5 ml-6.5 text-xs text-danger">{problem}</p>}
          </div>
        </>
      )}
      <Chips
        label="Evaluation contexts"
        placeholder="Add a context"
        hint="Only requests that name one of them get the flag."
        value={draft.evaluation_contexts}
        disabled={disabled}
        onChange={(contexts) => edit({ ...draft, evaluation_contexts: contexts }, "contexts")}
      />
      <Chips
        label="Tags"
        value={draft.tags}
        disabled={disabled}
        onChange={(tags) => edit({ ...draft, tags }, "tags")}
      />
      <Field label="Dashboards">
        <MultiCombobox
          label="Dashboards"
          className="w-full!"
          options={(dashboards.data?.results ?? []).map(({ id, name }) => ({
            value: String(id),
            label: name ?? `Dashboard ${id}`,
          }))}
          value={chosen}
          loading={dashboards.isPending}
          empty="There is no dashboard yet."
          disabled={disabled}
          onChange={(ids) => edit({ ...draft, analytics_dashboards: ids.map(Number) })}
        />
      </Field>
    </>
  );
}

interface ChipsProps {
  label: string;
  hint?: string;
  placeholder?: string;
  value: readonly string[];
  disabled: boolean;
  onChange: (value: string[]) => void;
}

function Chips({ label, hint, placeholder, value, disabled, onChange }: ChipsProps) {
  return disabled ? (
    <div>
      <p className="text-[0.8125rem] font-medium">{label}</p>
      <p className="text-muted">{value.join(", ") || "None"}</p>
    </div>
  ) : (
    <Field label={label} hint={hint}>
      <TagsInput value={value} onChange={onChange} placeholder={placeholder} />
    </Field>
  );
}
