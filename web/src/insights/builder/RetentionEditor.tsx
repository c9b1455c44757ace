import { type EventChoice, EventPicker } from "@/filters/EventPicker";
import { FilterEditor } from "@/filters/FilterEditor";
import { NumberField, Select } from "@/ui";
import type { RetentionEntity, RetentionQuery } from "../queries";

const INTERVALS_MAX = 31;

function choiceOf(entity: RetentionEntity | null | undefined): EventChoice {
  if (!entity) return { kind: "event", event: "$pageview" };
  if (entity.type === "actions") {
    return { kind: "action", id: Number(entity.id), name: entity.name ?? `Action ${entity.id}` };
  }
  return {
    kind: "event",
    event: entity.id === null || entity.id === undefined ? null : String(entity.id),
  };
}

function entityOf(
  choice: EventChoice,
  before: RetentionEntity | null | undefined,
): RetentionEntity {
  const properties = before?.properties;
  return choice.kind === "action"
    ? { id: choice.id, name: choice.name, type: "actions", properties }
    : { id: choice.event, type: "events", properties };
}

export interface RetentionEditorProps {
  query: RetentionQuery;
  edit: (query: RetentionQuery, topic?: string) => void;
  disabled?: boolean;
}

/// Who starts, who comes back, and over how many periods.
export function RetentionEditor({ query, edit, disabled }: RetentionEditorProps) {
  const filter = query.retentionFilter ?? {};
  const set = (patch: Partial<typeof filter>, topic?: string) =>
    edit({ ...query, retentionFilter: { ...filter, ...patch } }, topic);
  const entity = (key: "targetEntity" | "returningEntity", label: string) => {
    const value = filter[key];
    const event =
      value?.type !== "actions" && typeof value?.id === "string" ? [value.id] : undefined;
    return (
      <fieldset className="flex flex-col gap-1.5 rounded-md border bg-bg p-1.5">
        <legend className="sr-only">{label}</legend>
        <span aria-hidden="true" className="text-xs text-muted">
          {label}
        </span>
        <span className="flex flex-wrap items-center gap-1.5">
          <EventPicker
            size="sm"
            className="max-w-56"
            value={choiceOf(value)}
            onChange={(choice) => set({ [key]: entityOf(choice, value) })}
            disabled={disabled}
          />
          {key === "targetEntity" && (
            <Select
              label="Which time counts"
              size="sm"
              value={filter.retentionType ?? "retention_recurring"}
              onChange={(retentionType) => set({ retentionType })}
              options={[
                { value: "retention_recurring", label: "any time" },
                {
                  value: "retention_first_time",
                  label: "for the first time",
                  hint: "The first event that passes the filters",
                },
                {
                  value: "retention_first_ever_occurrence",
                  label: "for the first time ever",
                  hint: "The filters are tested on that first event",
                },
              ]}
              disabled={disabled}
            />
          )}
        </span>
        <FilterEditor
          value={value?.properties}
          onChange={(properties) =>
            set({ [key]: { ...(value ?? entityOf(choiceOf(undefined), undefined)), properties } })
          }
          events={event}
          disabled={disabled}
        />
      </fieldset>
    );
  };
  return (
    <div className="flex flex-col gap-1.5">
      {entity("targetEntity", "Persons who did")}
      {entity("returningEntity", "and came back to do")}
      <div className="flex flex-wrap items-center gap-1.5 text-[0.8125rem]">
        over
        <NumberField
          label="Number of periods"
          min={1}
          max={INTERVALS_MAX}
          value={filter.totalIntervals ?? 8}
          onChange={(count) => set({ totalIntervals: count ?? 8 }, "intervals")}
          disabled={disabled}
        />
        <Select
          label="Period"
          size="sm"
          value={filter.period ?? "Day"}
          onChange={(period) => set({ period })}
          options={[
            { value: "Hour", label: "hours" },
            { value: "Day", label: "days" },
            { value: "Week", label: "weeks" },
            { value: "Month", label: "months" },
          ]}
          disabled={disabled}
        />
      </div>
    </div>
  );
}
