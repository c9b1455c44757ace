import { useQuery } from "@tanstack/react-query";
import {
  ArrowDown,
  ArrowUp,
  CircleDashed,
  Copy,
  EllipsisVertical,
  ListFilter,
  Pencil,
  Plus,
  Trash2,
} from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { type EventChoice, EventPicker } from "@/filters/EventPicker";
import { FilterEditor } from "@/filters/FilterEditor";
import { PropertyPicker } from "@/filters/PropertyPicker";
import { countFilters } from "@/filters/types";
import { Typed } from "@/filters/ValueInput";
import { useProject } from "@/shell/useProject";
import { Button, Combobox, type ComboboxGroup, cx, IconButton, Menu, Select } from "@/ui";
import {
  COUNT_MATHS,
  HOGQL_MATH,
  isPercentile,
  isPercentilePerActor,
  needsProperty,
  PER_ACTOR_MATHS,
  PERCENTILES,
  PROPERTY_MATHS,
} from "../maths";
import { seriesLetter, seriesName } from "../names";
import type { SeriesNode } from "../queries";

export function choiceOfNode(node: SeriesNode): EventChoice {
  return node.kind === "ActionsNode"
    ? { kind: "action", id: Number(node.id ?? 0), name: node.name ?? `Action ${node.id ?? ""}` }
    : { kind: "event", event: node.event ?? null };
}

/// The node with another event; its filters and math stay.
export function withChoice(node: SeriesNode, choice: EventChoice): SeriesNode {
  const { event: _event, id: _id, name: _name, custom_name: _custom, ...rest } = node;
  return choice.kind === "action"
    ? { ...rest, kind: "ActionsNode", id: choice.id, name: choice.name }
    : { ...rest, kind: "EventsNode", event: choice.event };
}

/// Which maths a kind of insight takes.
export type MathOffer = "all" | "actors" | "none";

export interface SeriesEditorProps {
  series: readonly SeriesNode[];
  onChange: (series: SeriesNode[], topic?: string) => void;
  math: MathOffer;
  /// Letters for formulas, numbers for steps.
  marks: "letters" | "numbers" | "none";
  addLabel: string;
  max: number;
  /// Whether steps after the first may be optional.
  optional?: boolean;
  disabled?: boolean;
}

/// The series of an insight: their events, how they count, their own filters.
export function SeriesEditor({
  series,
  onChange,
  math,
  marks,
  addLabel,
  max,
  optional = false,
  disabled,
}: SeriesEditorProps) {
  const set = (at: number, node: SeriesNode, topic?: string) =>
    onChange(
      series.map((item, index) => (index === at ? node : item)),
      topic,
    );
  const move = (from: number, to: number) => {
    const next = [...series];
    const [node] = next.splice(from, 1);
    if (node) next.splice(to, 0, node);
    onChange(next);
  };
  return (
    <div className="flex flex-col gap-1.5">
      <ol className="flex flex-col gap-1.5">
        {series.map((node, at) => (
          <SeriesRow
            // biome-ignore lint/suspicious/noArrayIndexKey: a series is its position.
            key={at}
            node={node}
            mark={
              marks === "letters" ? seriesLetter(at) : marks === "numbers" ? String(at + 1) : ""
            }
            math={math}
            optional={optional && at > 0}
            disabled={disabled}
            onChange={(next, topic) => set(at, next, topic && `${topic}.${at}`)}
            onRemove={
              series.length > 1
                ? () => onChange(series.filter((_, index) => index !== at))
                : undefined
            }
            onDuplicate={
              series.length < max
                ? () => onChange([...series.slice(0, at + 1), node, ...series.slice(at + 1)])
                : undefined
            }
            onUp={at > 0 ? () => move(at, at - 1) : undefined}
            onDown={at < series.length - 1 ? () => move(at, at + 1) : undefined}
          />
        ))}
      </ol>
      {!disabled && series.length < max && (
        <EventPicker
          label={addLabel}
          value={null}
          onChange={(choice) => onChange([...series, withChoice({ kind: "EventsNode" }, choice)])}
          trigger={
            <Button
              aria-label={addLabel}
              size="sm"
              variant="ghost"
              className="-ml-2 self-start"
              icon={<Plus aria-hidden />}
            >
              {addLabel}
            </Button>
          }
        />
      )}
    </div>
  );
}

interface SeriesRowProps {
  node: SeriesNode;
  mark: string;
  math: MathOffer;
  optional: boolean;
  disabled?: boolean;
  onChange: (node: SeriesNode, topic?: string) => void;
  onRemove?: () => void;
  onDuplicate?: () => void;
  onUp?: () => void;
  onDown?: () => void;
}

function SeriesRow({
  node,
  mark,
  math,
  optional,
  disabled,
  onChange,
  onRemove,
  onDuplicate,
  onUp,
  onDown,
}: SeriesRowProps) {
  const [renaming, setRenaming] = useState(false);
  const [filtering, setFiltering] = useState(false);
  const filters = countFilters(node.properties);
  const name = seriesName(node);
  const fieldset = mark ? `Series ${mark}: ${name}` : name;
  return (
    <li>
      <fieldset className="rounded-md border bg-bg p-1.5">
        <legend className="sr-only">{fieldset}</legend>
        <div className="flex flex-wrap items-center gap-1.5">
          {mark && (
            <span
              aria-hidden="true"
              className="grid size-5 shrink-0 place-items-center rounded bg-sunken text-xs font-semibold text-muted"
            >
              {mark}
            </span>
          )}
          <EventPicker
            size="sm"
            className="max-w-52"
            value={choiceOfNode(node)}
            onChange={(choice) => onChange(withChoice(node, choice))}
            disabled={disabled}
          />
          {node.optionalInFunnel && <span className="text-xs text-muted">optional</span>}
          {math !== "none" && (
            <span
              className={cx(
                "order-last flex w-full min-w-0 flex-wrap items-center gap-1.5",
                mark && "pl-6.5",
              )}
            >
              <MathEditor node={node} offer={math} onChange={onChange} disabled={disabled} />
            </span>
          )}
          {!disabled && (
            <span className="ml-auto flex">
              <IconButton
                label={`Filter ${name}`}
                size="sm"
                aria-expanded={filtering || filters > 0}
                onClick={() => setFiltering(!filtering)}
              >
                <ListFilter aria-hidden className={filters > 0 ? "text-accent-text" : undefined} />
              </IconButton>
              <Menu
                align="end"
                trigger={
                  <IconButton label={`More for ${name}`} size="sm">
                    <EllipsisVertical aria-hidden />
                  </IconButton>
                }
                items={[
                  {
                    label: "Rename",
                    icon: <Pencil aria-hidden />,
                    onSelect: () => setRenaming(true),
                  },
                  ...(optional || node.optionalInFunnel
                    ? [
                        {
                          label: node.optionalInFunnel ? "Make required" : "Make optional",
                          icon: <CircleDashed aria-hidden />,
                          onSelect: () =>
                            onChange({
                              ...node,
                              optionalInFunnel: node.optionalInFunnel ? undefined : true,
                            }),
                        },
                      ]
                    : []),
                  ...(onDuplicate
                    ? [{ label: "Duplicate", icon: <Copy aria-hidden />, onSelect: onDuplicate }]
                    : []),
                  ...(onUp
                    ? [{ label: "Move up", icon: <ArrowUp aria-hidden />, onSelect: onUp }]
                    : []),
                  ...(onDown
                    ? [{ label: "Move down", icon: <ArrowDown aria-hidden />, onSelect: onDown }]
                    : []),
                  ...(onRemove
                    ? [
                        "separator" as const,
                        {
                          label: "Remove",
                          icon: <Trash2 aria-hidden />,
                          onSelect: onRemove,
                          danger: true,
                        },
                      ]
                    : []),
                ]}
              />
            </span>
          )}
        </div>
        {(renaming || node.custom_name) && (
          <div className={cx("mt-1.5 flex items-center gap-1.5", mark && "pl-6.5")}>
            <span aria-hidden="true" className="text-xs text-muted">
              named
            </span>
            <Typed
              label={`Name of ${name}`}
              placeholder={seriesName({ ...node, custom_name: undefined })}
              value={node.custom_name ?? ""}
              onCommit={(text) => onChange({ ...node, custom_name: text || undefined }, "rename")}
              disabled={disabled}
              className="max-w-56"
            />
          </div>
        )}
        {(filtering || filters > 0) && (
          <FilterEditor
            className={cx("mt-1.5", mark && "pl-6.5")}
            value={node.properties}
            onChange={(properties) => onChange({ ...node, properties })}
            events={node.kind === "EventsNode" && node.event ? [node.event] : undefined}
            disabled={disabled}
          />
        )}
      </fieldset>
    </li>
  );
}

const PROPERTY_TYPES: Record<string, Schemas["MathPropertyType"]> = {
  event: "event_properties",
  person: "person_properties",
  session: "session_properties",
};

interface MathEditorProps {
  node: SeriesNode;
  offer: MathOffer;
  onChange: (node: SeriesNode, topic?: string) => void;
  disabled?: boolean;
}

/// What the menu calls the node's math: percentiles are one entry.
function menuValue({ math = "total", math_group_type_index: index }: SeriesNode): string {
  if (math === "unique_group") return `unique_group:${index ?? 0}`;
  if (isPercentile(math)) return "percentile";
  if (isPercentilePerActor(math)) return "percentile_per_actor";
  return math;
}

function MathEditor({ node, offer, onChange, disabled }: MathEditorProps) {
  const { projectId } = useProject();
  const groupTypes = useQuery(groupTypesQuery(projectId));
  const option = ({ value, label }: { value: string; label: string }) => ({ value, label });
  const uniqueGroups = (groupTypes.data ?? []).map((type) => ({
    value: `unique_group:${type.group_type_index}`,
    label: `Unique ${groupTypeName(type, true)}`,
  }));
  const groups: ComboboxGroup[] =
    offer === "actors"
      ? [
          {
            heading: "Who is counted",
            items: [{ value: "total", label: "Persons" }, ...uniqueGroups, option(HOGQL_MATH)],
          },
        ]
      : [
          { heading: "Count", items: [...COUNT_MATHS.map(option), ...uniqueGroups] },
          {
            heading: "Of a property",
            items: [...PROPERTY_MATHS.map(option), { value: "percentile", label: "Percentile" }],
          },
          {
            heading: "Events per person",
            items: [
              ...PER_ACTOR_MATHS.map(option),
              { value: "percentile_per_actor", label: "Percentile per person" },
            ],
          },
          { heading: "Advanced", items: [option(HOGQL_MATH)] },
        ];
  const choose = (next: string) => {
    const {
      math: _math,
      math_group_type_index: _index,
      math_hogql: _hogql,
      math_property: property,
      math_property_type: type,
      ...rest
    } = node;
    const math =
      next === "percentile"
        ? "p90"
        : next === "percentile_per_actor"
          ? "p90_count_per_actor"
          : (next.split(":")[0] as Schemas["Math"]);
    const kept = needsProperty(math) ? { math_property: property, math_property_type: type } : {};
    if (next === "total") return onChange(rest);
    if (math === "unique_group") {
      return onChange({ ...rest, math, math_group_type_index: Number(next.split(":")[1] ?? 0) });
    }
    onChange({ ...rest, math, ...kept });
  };
  const percentile = PERCENTILES.find(
    ({ value }) => value === node.math || `${value}_count_per_actor` === node.math,
  );
  const suffix = isPercentilePerActor(node.math) ? "_count_per_actor" : "";
  return (
    <>
      <Combobox
        label="How it counts"
        size="sm"
        className="max-w-44"
        options={groups}
        value={menuValue(node)}
        onChange={choose}
        disabled={disabled}
      />
      {percentile && (
        <Select
          label="Percentile"
          size="sm"
          value={percentile.value}
          onChange={(value) => onChange({ ...node, math: `${value}${suffix}` })}
          options={PERCENTILES.map(({ value, label }) => ({ value, label }))}
          disabled={disabled}
        />
      )}
      {needsProperty(node.math) && (
        <PropertyPicker
          label="Property to add up"
          size="sm"
          className="max-w-44"
          sources={["event", "person", "session"]}
          events={node.event ? [node.event] : undefined}
          numericOnly
          value={
            node.math_property
              ? {
                  type:
                    node.math_property === "$session_duration" ||
                    node.math_property_type === "session_properties"
                      ? "session"
                      : node.math_property_type === "person_properties"
                        ? "person"
                        : "event",
                  key: node.math_property,
                }
              : null
          }
          onChange={({ type, key }) =>
            onChange({ ...node, math_property: key, math_property_type: PROPERTY_TYPES[type] })
          }
          disabled={disabled}
        />
      )}
      {node.math === "hogql" && (
        <Typed
          label="SQL expression"
          placeholder={offer === "actors" ? "properties.$session_id" : "sum(properties.amount)"}
          value={node.math_hogql ?? ""}
          onCommit={(math_hogql) => onChange({ ...node, math_hogql }, "math_hogql")}
          disabled={disabled}
          className="w-full font-mono"
        />
      )}
    </>
  );
}
