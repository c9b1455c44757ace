import { Plus, Trash2, X } from "lucide-react";
import { useState } from "react";
import { EventPicker } from "@/filters/EventPicker";
import { FilterEditor } from "@/filters/FilterEditor";
import type { Filters } from "@/filters/types";
import { Button, Card, Field, IconButton, Input, Menu, Select } from "@/ui";
import { CONDITIONS, type ConditionKey, MATCHINGS, matchingOf, type Step } from "./steps";

export interface StepEditorProps {
  step: Step;
  number: number;
  disabled: boolean;
  /// The error of a field, by its path within the step.
  errorOf: (field: string) => string | undefined;
  onChange: (step: Step) => void;
  onRemove?: () => void;
}

/// One way to match: all of its conditions hold of the same event.
export function StepEditor({
  step,
  number,
  disabled,
  errorOf,
  onChange,
  onRemove,
}: StepEditorProps) {
  const [opened, setOpened] = useState<readonly ConditionKey[]>([]);
  const shown = CONDITIONS.filter(({ key }) => step[key] || opened.includes(key));
  const hidden = CONDITIONS.filter((condition) => !shown.includes(condition));
  const filterError = errorOf("properties");
  return (
    <Card
      level={3}
      title={`Step ${number}`}
      actions={
        onRemove && (
          <IconButton
            size="sm"
            label={`Remove step ${number}`}
            disabledReason={disabled ? "You can view this but not edit it." : undefined}
            onClick={onRemove}
          >
            <Trash2 aria-hidden />
          </IconButton>
        )
      }
    >
      <div className="flex flex-col gap-3">
        <div className="flex flex-wrap items-center gap-2">
          <span className="text-muted">Event</span>
          <EventPicker
            value={{ kind: "event", event: step.event || null }}
            allowActions={false}
            disabled={disabled}
            onChange={(choice) =>
              choice.kind === "event" && onChange({ ...step, event: choice.event })
            }
          />
        </div>
        {shown.map(({ key, label, placeholder, matching }) => (
          <div key={key} className="flex flex-wrap items-end gap-2">
            <Field label={label} error={errorOf(key)} className="min-w-0 flex-1 basis-60">
              <div className="flex flex-wrap gap-2">
                {matching && (key === "url" || key === "text" || key === "href") && (
                  <Select
                    label={`How ${label} matches`}
                    value={matchingOf(step, key)}
                    options={MATCHINGS}
                    disabled={disabled}
                    onChange={(next) => onChange({ ...step, [matching]: next })}
                  />
                )}
                <Input
                  className="min-w-0 flex-1 basis-40"
                  value={step[key] ?? ""}
                  placeholder={placeholder}
                  readOnly={disabled}
                  onChange={(event) => onChange({ ...step, [key]: event.currentTarget.value })}
                />
              </div>
            </Field>
            {!disabled && (
              <IconButton
                label={`Remove ${label} from step ${number}`}
                onClick={() => {
                  setOpened(opened.filter((one) => one !== key));
                  const next = { ...step, [key]: null };
                  if (matching) next[matching] = null;
                  onChange(next);
                }}
              >
                <X aria-hidden />
              </IconButton>
            )}
          </div>
        ))}
        <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
          <FilterEditor
            groups={false}
            className={(step.properties ?? []).length > 0 ? "w-full" : undefined}
            value={step.properties as Filters | undefined}
            events={step.event ? [step.event] : undefined}
            disabled={disabled}
            addLabel="Property"
            onChange={(filters) =>
              onChange({ ...step, properties: Array.isArray(filters) ? filters : [] })
            }
          />
          {!disabled && hidden.length > 0 && (
            <Menu
              trigger={
                <Button variant="ghost" size="sm" icon={<Plus aria-hidden />}>
                  Condition
                </Button>
              }
              items={hidden.map(({ key, label }) => ({
                label,
                onSelect: () => setOpened([...opened, key]),
              }))}
            />
          )}
        </div>
        {filterError && <p className="text-xs text-danger">{filterError}</p>}
      </div>
    </Card>
  );
}
