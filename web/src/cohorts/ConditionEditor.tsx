import { useQuery } from "@tanstack/react-query";
import { FolderPlus, ListFilter, Shapes, X, Zap } from "lucide-react";
import type { ReactElement } from "react";
import { cohortsQuery, propertyDefinitionQuery } from "@/filters/definitions";
import { EventPicker } from "@/filters/EventPicker";
import { FilterEditor, filterOf } from "@/filters/FilterEditor";
import { OPERATORS, operatorsFor, valueFor } from "@/filters/operators";
import { PropertyPicker } from "@/filters/PropertyPicker";
import { asGroup, type FilterOperator, filterKey } from "@/filters/types";
import { Typed, ValueInput } from "@/filters/ValueInput";
import { useProject } from "@/shell/useProject";
import { Button, Combobox, IconButton, Select } from "@/ui";
import {
  asFilter,
  type Condition,
  type ConditionGroup,
  cohortCondition,
  eventCondition,
  eventKey,
  isGroup,
  isNegated,
  personCondition,
  type TimeUnit,
  withNegation,
} from "./conditions";

const DEPTH_MAX = 3;
const PERSON = ["person"] as const;

export interface ConditionEditorProps {
  group: ConditionGroup;
  onChange: (group: ConditionGroup, topic?: string) => void;
  /// The cohort that is edited: it cannot name itself.
  cohortId?: number;
  depth?: number;
}

/// Conditions that all or any must hold, in groups.
export function ConditionEditor({ group, onChange, cohortId, depth = 0 }: ConditionEditorProps) {
  const set = (at: number, next: Condition | ConditionGroup | null) => {
    const values = [...group.values];
    if (next === null) values.splice(at, 1);
    else values[at] = next;
    onChange({ ...group, values });
  };
  const add = (one: Condition | ConditionGroup) =>
    onChange({ ...group, values: [...group.values, one] });
  const word = group.type === "OR" ? "or" : "and";
  return (
    <div className="flex flex-col items-start gap-2">
      {group.values.length > 1 && (
        <Select
          label="How the conditions combine"
          size="sm"
          value={group.type}
          onChange={(type) => onChange({ ...group, type })}
          options={[
            { value: "AND", label: "All of these" },
            { value: "OR", label: "Any of these" },
          ]}
        />
      )}
      {group.values.map((value, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: conditions have no identity.
        <div key={at} className="flex w-full min-w-0 flex-col gap-1">
          {at > 0 && <span className="text-xs font-medium text-muted uppercase">{word}</span>}
          <fieldset
            aria-label={isGroup(value) ? `Group ${at + 1}` : `Condition ${at + 1}`}
            className={
              isGroup(value)
                ? "relative min-w-0 rounded-md border border-dashed p-2.5"
                : "flex min-w-0 items-start gap-1.5 rounded-md border bg-surface p-2"
            }
          >
            {isGroup(value) ? (
              <>
                <ConditionEditor
                  group={value}
                  onChange={(next) => set(at, next.values.length > 0 ? next : null)}
                  cohortId={cohortId}
                  depth={depth + 1}
                />
                <IconButton
                  label="Remove group"
                  size="sm"
                  className="absolute top-1.5 right-1.5"
                  onClick={() => set(at, null)}
                >
                  <X aria-hidden />
                </IconButton>
              </>
            ) : (
              <>
                <ConditionRow
                  condition={value}
                  onChange={(next) => set(at, next)}
                  cohortId={cohortId}
                />
                <IconButton label="Remove condition" size="sm" onClick={() => set(at, null)}>
                  <X aria-hidden />
                </IconButton>
              </>
            )}
          </fieldset>
        </div>
      ))}
      <AddButtons add={add} cohortId={cohortId} canNest={depth < DEPTH_MAX - 1} />
    </div>
  );
}

interface AddButtonsProps {
  add: (one: Condition | ConditionGroup) => void;
  cohortId?: number;
  canNest: boolean;
}

function AddButtons({ add, cohortId, canNest }: AddButtonsProps) {
  return (
    <div className="flex flex-wrap gap-1">
      <PropertyPicker
        label="Person property"
        value={null}
        sources={PERSON}
        onChange={(choice) => add(personCondition(filterOf(choice)))}
        trigger={
          <Button size="sm" icon={<ListFilter aria-hidden />} aria-label="Add property">
            Property
          </Button>
        }
      />
      <EventPicker
        label="Event"
        value={null}
        allowAll={false}
        onChange={(choice) =>
          add(
            eventCondition(
              choice.kind === "event" ? { kind: "event", event: choice.event ?? "" } : choice,
            ),
          )
        }
        trigger={
          <Button size="sm" icon={<Zap aria-hidden />} aria-label="Add behavior">
            Behavior
          </Button>
        }
      />
      <CohortPicker
        value={null}
        except={cohortId}
        onChange={(id) => add(cohortCondition(id))}
        trigger={
          <Button size="sm" icon={<Shapes aria-hidden />} aria-label="Add cohort">
            Cohort
          </Button>
        }
      />
      {canNest && (
        <PropertyPicker
          label="First property of the group"
          value={null}
          sources={PERSON}
          onChange={(choice) => add({ type: "OR", values: [personCondition(filterOf(choice))] })}
          trigger={
            <Button
              size="sm"
              variant="ghost"
              icon={<FolderPlus aria-hidden />}
              aria-label="Add group"
            >
              Group
            </Button>
          }
        />
      )}
    </div>
  );
}

interface RowProps {
  condition: Condition;
  onChange: (condition: Condition) => void;
  cohortId?: number;
}

function ConditionRow({ condition, onChange, cohortId }: RowProps) {
  if (condition.type === "behavioral") {
    return <BehaviorRow condition={condition} onChange={onChange} />;
  }
  if (condition.type === "person") return <PropertyRow condition={condition} onChange={onChange} />;
  return (
    <div className="flex min-w-0 flex-1 flex-wrap items-center gap-1.5">
      <Select
        label="Membership"
        size="sm"
        value={isNegated(condition) ? "not" : "in"}
        onChange={(next) => onChange(withNegation(condition, next === "not"))}
        options={[
          { value: "in", label: "is in" },
          { value: "not", label: "is not in" },
        ]}
      />
      <CohortPicker
        value={Number(condition.value)}
        except={cohortId}
        onChange={(id) => onChange({ ...condition, value: id })}
      />
    </div>
  );
}

function CohortPicker({
  value,
  except,
  onChange,
  trigger,
}: {
  value: number | null;
  except?: number;
  onChange: (id: number) => void;
  trigger?: ReactElement<Record<string, unknown>>;
}) {
  const { projectId } = useProject();
  const cohorts = useQuery(cohortsQuery(projectId));
  return (
    <Combobox
      label="Cohort"
      size="sm"
      className="max-w-60"
      options={(cohorts.data?.results ?? [])
        .filter(({ id }) => id !== except)
        .map(({ id, name }) => ({ value: String(id), label: name || `Cohort ${id}` }))}
      value={value === null ? null : String(value)}
      valueLabel={value === null ? undefined : cohortLabel(cohorts.data?.results, value)}
      onChange={(next) => onChange(Number(next))}
      loading={cohorts.isPending}
      empty="There is no other cohort."
      trigger={trigger}
    />
  );
}

function cohortLabel(
  cohorts: readonly { id: number; name?: string | null }[] | undefined,
  id: number,
): string {
  return cohorts?.find((cohort) => cohort.id === id)?.name || `Cohort ${id}`;
}

function PropertyRow({ condition, onChange }: RowProps) {
  const { projectId } = useProject();
  const filter = asFilter(condition);
  const key = filterKey(filter);
  const definition = useQuery(propertyDefinitionQuery(projectId, "person", key));
  const kind = definition.data?.property_type ?? null;
  const operator = filter.operator ?? "exact";
  const known = operatorsFor("person", kind, key);
  const operators: FilterOperator[] = known.includes(operator) ? known : [operator, ...known];
  return (
    <div className="flex min-w-0 flex-1 flex-wrap items-center gap-1.5">
      <Select
        label="Whether it holds"
        size="sm"
        value={isNegated(condition) ? "not" : "has"}
        onChange={(next) => onChange(withNegation(condition, next === "not"))}
        options={[
          { value: "has", label: "has" },
          { value: "not", label: "has not" },
        ]}
      />
      <PropertyPicker
        size="sm"
        className="max-w-48"
        sources={PERSON}
        value={{ type: "person", key }}
        onChange={(choice) => onChange(personCondition(filterOf(choice), condition))}
      />
      <Select
        label="Operator"
        size="sm"
        value={operator}
        onChange={(next) =>
          onChange({
            ...condition,
            operator: next as Condition["operator"],
            value: valueFor(next, filter.value),
          })
        }
        options={operators.map((name) => ({ value: name, label: OPERATORS[name]?.label ?? name }))}
      />
      <ValueInput
        filter={{ ...filter, operator }}
        kind={kind}
        onChange={(value) => onChange({ ...condition, value })}
      />
    </div>
  );
}

const FREQUENCIES = [
  { value: "performed_event", label: "at least once" },
  { value: "gte", label: "at least" },
  { value: "exact", label: "exactly" },
  { value: "lte", label: "at most" },
  { value: "gt", label: "more than" },
  { value: "lt", label: "fewer than" },
  { value: "performed_event_first_time", label: "for the first time" },
] as const;

type Frequency = (typeof FREQUENCIES)[number]["value"];

function frequencyOf({ value, operator }: Condition): Frequency {
  if (value !== "performed_event_multiple") {
    return value === "performed_event_first_time" ? value : "performed_event";
  }
  return FREQUENCIES.find((one) => one.value === operator)?.value ?? "exact";
}

function withFrequency(condition: Condition, next: Frequency): Condition {
  if (next === "performed_event" || next === "performed_event_first_time") {
    return { ...condition, value: next, operator: undefined, operator_value: undefined };
  }
  return {
    ...condition,
    value: "performed_event_multiple",
    operator: next,
    operator_value: condition.operator_value ?? 2,
  };
}

const UNITS: readonly { value: TimeUnit; label: string }[] = [
  { value: "minute", label: "minutes" },
  { value: "hour", label: "hours" },
  { value: "day", label: "days" },
  { value: "week", label: "weeks" },
  { value: "month", label: "months" },
  { value: "year", label: "years" },
];

const DAYS_BEFORE = 30;

function dayBefore(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

function BehaviorRow({ condition, onChange }: RowProps) {
  const frequency = frequencyOf(condition);
  const isDated = Boolean(condition.explicit_datetime);
  const choice =
    condition.event_type === "actions"
      ? { kind: "action" as const, id: Number(condition.key), name: `Action ${condition.key}` }
      : { kind: "event" as const, event: String(condition.key ?? "") };
  const event = choice.kind === "event" ? [choice.event] : undefined;
  return (
    <div className="flex min-w-0 flex-1 flex-col items-start gap-1.5">
      <div className="flex min-w-0 flex-wrap items-center gap-1.5">
        <Select
          label="Whether it was done"
          size="sm"
          value={condition.negation ? "not" : "did"}
          onChange={(next) => onChange({ ...condition, negation: next === "not" })}
          options={[
            { value: "did", label: "did" },
            { value: "not", label: "did not do" },
          ]}
        />
        <EventPicker
          size="sm"
          className="max-w-56"
          value={choice}
          allowAll={false}
          onChange={(next) =>
            onChange({
              ...condition,
              ...eventKey(
                next.kind === "event" ? { kind: "event", event: next.event ?? "" } : next,
              ),
            })
          }
        />
        <Select
          label="How often"
          size="sm"
          value={frequency}
          onChange={(next) => onChange(withFrequency(condition, next))}
          options={FREQUENCIES}
        />
        {condition.value === "performed_event_multiple" && (
          <span className="flex items-center gap-1.5">
            <Typed
              label="Times"
              inputMode="decimal"
              className="w-16"
              value={String(condition.operator_value ?? "")}
              onCommit={(text) => onChange({ ...condition, operator_value: Number(text) || null })}
            />
            times
          </span>
        )}
      </div>
      <div className="flex min-w-0 flex-wrap items-center gap-1.5">
        <Select
          label="When"
          size="sm"
          value={isDated ? "dates" : "last"}
          onChange={(next) =>
            onChange(
              next === "dates"
                ? {
                    ...condition,
                    explicit_datetime: dayBefore(DAYS_BEFORE),
                    explicit_datetime_to: null,
                  }
                : {
                    ...condition,
                    explicit_datetime: null,
                    explicit_datetime_to: null,
                    time_value: condition.time_value ?? DAYS_BEFORE,
                    time_interval: condition.time_interval ?? "day",
                  },
            )
          }
          options={[
            { value: "last", label: "in the last" },
            { value: "dates", label: "between dates" },
          ]}
        />
        {isDated ? (
          <>
            <Typed
              label="From"
              placeholder="2026-01-31 or -30d"
              className="w-36"
              value={condition.explicit_datetime ?? ""}
              onCommit={(text) => onChange({ ...condition, explicit_datetime: text || null })}
            />
            <span className="text-muted">to</span>
            <Typed
              label="To"
              placeholder="now"
              className="w-36"
              value={condition.explicit_datetime_to ?? ""}
              onCommit={(text) => onChange({ ...condition, explicit_datetime_to: text || null })}
            />
          </>
        ) : (
          <>
            <Typed
              label="Length of time"
              inputMode="decimal"
              className="w-16"
              value={String(condition.time_value ?? "")}
              onCommit={(text) => onChange({ ...condition, time_value: Number(text) || null })}
            />
            <Select
              label="Unit of time"
              size="sm"
              value={condition.time_interval ?? "day"}
              onChange={(unit) => onChange({ ...condition, time_interval: unit })}
              options={UNITS}
            />
          </>
        )}
      </div>
      <FilterEditor
        value={condition.event_filters ?? undefined}
        groups={false}
        events={event}
        sources={EVENT_SOURCES}
        addLabel="Event filter"
        onChange={(filters) =>
          onChange({
            ...condition,
            event_filters: filters ? asGroup(filters).values : undefined,
          })
        }
      />
    </div>
  );
}

const EVENT_SOURCES = ["event", "person", "cohort", "group", "element", "hogql"] as const;
