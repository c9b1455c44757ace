import { useQuery } from "@tanstack/react-query";
import { FolderPlus, ListFilter, X } from "lucide-react";
import { useProject } from "@/shell/useProject";
import { Button, cx, IconButton, Select } from "@/ui";
import { propertyDefinitionQuery, SESSION_FIELDS } from "./definitions";
import { OPERATORS, operatorsFor, type PropertyKind, valueFor } from "./operators";
import {
  ALL_SOURCES,
  type PropertyChoice,
  PropertyPicker,
  type PropertySource,
} from "./PropertyPicker";
import {
  asGroup,
  compactFilters,
  type FilterGroup,
  type Filters,
  filterKey,
  isGroup,
  type PropertyFilter,
} from "./types";
import { Typed, ValueInput } from "./ValueInput";

export interface FilterEditorProps {
  value: Filters | null | undefined;
  /// Undefined where no filter is left.
  onChange: (filters: Filters | undefined) => void;
  sources?: readonly PropertySource[];
  /// Offers properties of these events first.
  events?: readonly string[];
  /// Only groups of this type.
  groupIndex?: number;
  /// The flag whose conditions these are.
  exceptFlag?: number;
  /// Whether AND/OR groups can be made; the API of lists of filters takes none.
  groups?: boolean;
  disabled?: boolean;
  /// The text of the button that adds a filter.
  addLabel?: string;
  /// What is filtered, where a screen has several of these: "condition 1".
  of?: string;
  className?: string;
}

/// Edits property filters: a list in which all hold, or groups with AND and OR.
export function FilterEditor({
  value,
  onChange,
  sources = ALL_SOURCES,
  events,
  groupIndex,
  exceptFlag,
  groups = true,
  disabled,
  addLabel = "Filter",
  of,
  className,
}: FilterEditorProps) {
  return (
    <Group
      group={asGroup(value)}
      onChange={(next) => onChange(compactFilters(next))}
      sources={sources}
      events={events}
      groupIndex={groupIndex}
      exceptFlag={exceptFlag}
      groups={groups}
      disabled={disabled}
      addLabel={addLabel}
      of={of}
      className={className}
      depth={0}
    />
  );
}

interface GroupProps extends Omit<FilterEditorProps, "value" | "onChange"> {
  group: FilterGroup;
  onChange: (group: FilterGroup) => void;
  depth: number;
}

const DEPTH_MAX = 3;

function Group({
  group,
  onChange,
  depth,
  className,
  addLabel = "Filter",
  of,
  ...rest
}: GroupProps) {
  const { sources = ALL_SOURCES, events, groupIndex, exceptFlag, groups, disabled } = rest;
  const set = (at: number, next: PropertyFilter | FilterGroup | null) => {
    const values = [...group.values];
    if (next === null) values.splice(at, 1);
    else values[at] = next;
    onChange({ ...group, values });
  };
  const add = (choice: PropertyChoice) =>
    onChange({ ...group, values: [...group.values, filterOf(choice)] });
  const word = group.type === "OR" ? "or" : "and";
  return (
    <div className={cx("flex flex-col items-start gap-1.5", className)}>
      {group.values.length > 1 && (groups || group.type === "OR") && (
        <Select
          label="How the filters combine"
          size="sm"
          value={group.type}
          disabled={disabled}
          onChange={(type) => onChange({ ...group, type })}
          options={[
            { value: "AND", label: "All of these" },
            { value: "OR", label: "Any of these" },
          ]}
        />
      )}
      {group.values.map((value, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: filters have no identity.
        <div key={at} className="flex w-full min-w-0 items-start gap-1.5">
          {at > 0 && <span className="w-6 shrink-0 pt-1 text-xs text-muted">{word}</span>}
          {isGroup(value) ? (
            <div className="relative min-w-0 flex-1 rounded-md border border-dashed p-2">
              <Group
                {...rest}
                group={value}
                onChange={(next) => set(at, next.values.length > 0 ? next : null)}
                depth={depth + 1}
              />
              {!disabled && (
                <Button
                  size="sm"
                  variant="ghost"
                  className="absolute right-1 bottom-2"
                  onClick={() => set(at, null)}
                >
                  Remove group
                </Button>
              )}
            </div>
          ) : (
            <FilterRow
              filter={value}
              onChange={(next) => set(at, next)}
              onRemove={() => set(at, null)}
              sources={sources}
              events={events}
              groupIndex={groupIndex}
              exceptFlag={exceptFlag}
              disabled={disabled}
            />
          )}
        </div>
      ))}
      {!disabled && (
        <div className="-ml-2 flex flex-wrap">
          <PropertyPicker
            label="Property"
            value={null}
            onChange={add}
            sources={sources}
            events={events}
            groupIndex={groupIndex}
            exceptFlag={exceptFlag}
            trigger={
              <Button
                aria-label={`Add ${addLabel.toLowerCase()}${of ? ` of ${of}` : ""}`}
                size="sm"
                variant="ghost"
                icon={<ListFilter aria-hidden />}
              >
                {addLabel}
              </Button>
            }
          />
          {groups && depth < DEPTH_MAX - 1 && group.values.length > 0 && (
            <PropertyPicker
              label="First property of the group"
              value={null}
              onChange={(choice) =>
                onChange({
                  ...group,
                  values: [...group.values, { type: "OR", values: [filterOf(choice)] }],
                })
              }
              sources={sources}
              events={events}
              trigger={
                <Button
                  aria-label="Add group of filters"
                  size="sm"
                  variant="ghost"
                  icon={<FolderPlus aria-hidden />}
                >
                  Group
                </Button>
              }
            />
          )}
        </div>
      )}
    </div>
  );
}

/// A new filter of a chosen property, with the operator that its type suggests.
export function filterOf({ type, key, groupIndex, kind = null }: PropertyChoice): PropertyFilter {
  if (type === "cohort") return { key: "id", type, operator: "in", value: Number(key) };
  if (type === "hogql") return { key, type };
  if (type === "flag") return { key, type, operator: "flag_evaluates_to", value: true };
  const operator = operatorsFor(type, kind, key)[0] ?? "exact";
  const filter: PropertyFilter = { key, type, operator, value: valueFor(operator, null) };
  return groupIndex === undefined ? filter : { ...filter, group_type_index: groupIndex };
}

interface FilterRowProps {
  filter: PropertyFilter;
  onChange: (filter: PropertyFilter) => void;
  onRemove: () => void;
  sources: readonly PropertySource[];
  events?: readonly string[];
  groupIndex?: number;
  exceptFlag?: number;
  disabled?: boolean;
}

function useKind(filter: PropertyFilter): PropertyKind | null {
  const { projectId } = useProject();
  const { group_type_index: index } = filter;
  const [type, key] = [filter.type ?? "event", filterKey(filter)];
  const definition = useQuery(propertyDefinitionQuery(projectId, type, key, index ?? undefined));
  if (type === "session") {
    return SESSION_FIELDS.find((field) => field.key === key)?.numeric ? "Numeric" : null;
  }
  return definition.data?.property_type ?? null;
}

function FilterRow({ filter, onChange, onRemove, disabled, ...offered }: FilterRowProps) {
  const kind = useKind(filter);
  const [type, key] = [filter.type ?? "event", filterKey(filter)];
  const isCohort = type === "cohort" || type === "static-cohort";
  const operator = isCohort && filter.operator !== "not_in" ? "in" : (filter.operator ?? "exact");
  const known = operatorsFor(type, kind, key);
  const operators = known.includes(operator) || isCohort ? known : [operator, ...known];
  return (
    <div className="flex min-w-0 flex-1 flex-wrap items-center gap-1.5">
      {!isCohort && (
        <PropertyPicker
          size="sm"
          className="max-w-48"
          value={{ type, key, groupIndex: filter.group_type_index ?? undefined }}
          onChange={(choice) => onChange(filterOf(choice))}
          {...offered}
          disabled={disabled}
        />
      )}
      {type === "flag" ? (
        <>
          <span className="text-muted">{OPERATORS.flag_evaluates_to.label}</span>
          <ValueInput
            filter={filter}
            kind={null}
            disabled={disabled}
            onChange={(value) => onChange({ ...filter, value })}
          />
        </>
      ) : type === "hogql" ? (
        <Typed
          label="SQL expression"
          placeholder="properties.amount > 10"
          value={key}
          onCommit={(expression) => onChange({ ...filter, key: expression })}
          disabled={disabled}
          className="w-56 font-mono"
        />
      ) : (
        <>
          <Select
            label="Operator"
            size="sm"
            value={operator}
            disabled={disabled}
            onChange={(next) =>
              onChange({ ...filter, operator: next, value: valueFor(next, filter.value) })
            }
            options={operators.map((name) => ({
              value: name,
              label: OPERATORS[name]?.label ?? name,
            }))}
          />
          <ValueInput
            filter={{ ...filter, operator }}
            kind={kind}
            onChange={(value) => onChange({ ...filter, value })}
            disabled={disabled}
          />
        </>
      )}
      {!disabled && (
        <IconButton label="Remove filter" size="sm" className="ml-auto" onClick={onRemove}>
          <X aria-hidden />
        </IconButton>
      )}
    </div>
  );
}
