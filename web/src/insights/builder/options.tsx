import { useQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { type EventChoice, EventPicker } from "@/filters/EventPicker";
import { PropertyPicker } from "@/filters/PropertyPicker";
import { Typed } from "@/filters/ValueInput";
import { useProject } from "@/shell/useProject";
import { Button, Checkbox, IconButton, Menu, NumberField, Select, type SelectOption } from "@/ui";
import { seriesLetter } from "../names";
import {
  type FunnelsQuery,
  formulasOf,
  type InsightQuery,
  type LifecycleQuery,
  type LifecycleStatus,
  type PathsQuery,
  type RetentionQuery,
  type SeriesNode,
  type StickinessQuery,
  type TrendsQuery,
} from "../queries";
import { LIFECYCLE } from "../results";
import type { ValueUnit } from "../valueFormat";
import { OptionRow } from "./Section";
import { choiceOfNode, withChoice } from "./SeriesEditor";

export type Edit = (query: InsightQuery, topic?: string) => void;

interface Controls<Q> {
  query: Q;
  edit: (query: Q, topic?: string) => void;
  disabled?: boolean;
}

/// An option that is hidden until it is added.
interface Option<Q> {
  id: string;
  label: string;
  /// Which of the query's parts an error of it names.
  field?: string;
  isOn: (query: Q) => boolean;
  add: (query: Q) => Q;
  remove: (query: Q) => Q;
  control?: (props: Controls<Q>) => ReactNode;
}

/// The object without a key, or nothing where it was the last.
function without<T extends object>(filter: T | undefined, ...keys: (keyof T)[]): T | undefined {
  if (!filter) return undefined;
  const rest = { ...filter };
  for (const key of keys) delete rest[key];
  return Object.keys(rest).length > 0 ? rest : undefined;
}

function groupOption<Q extends InsightQuery>(): Option<Q> {
  return {
    id: "group",
    label: "Count groups",
    isOn: ({ aggregation_group_type_index: index }) => index !== undefined && index !== null,
    add: (query) => ({ ...query, aggregation_group_type_index: 0 }),
    remove: ({ aggregation_group_type_index: _, ...query }) => query as Q,
    control: (props) => <GroupChoice {...props} />,
  };
}

function GroupChoice<Q extends InsightQuery>({ query, edit, disabled }: Controls<Q>) {
  const { projectId } = useProject();
  const types = useQuery(groupTypesQuery(projectId));
  if (types.data?.length === 0) {
    return <span className="text-xs text-muted">No event names a group yet.</span>;
  }
  return (
    <Select
      label="Group type"
      size="sm"
      value={String(query.aggregation_group_type_index ?? 0)}
      onChange={(index) => edit({ ...query, aggregation_group_type_index: Number(index) })}
      options={(types.data ?? []).map((type) => ({
        value: String(type.group_type_index),
        label: groupTypeName(type, true),
      }))}
      disabled={disabled}
    />
  );
}

const TRENDS: Option<TrendsQuery>[] = [
  {
    id: "formula",
    label: "Formula",
    field: "formula",
    isOn: ({ trendsFilter: filter }) =>
      (filter?.formulaNodes ?? filter?.formulas ?? []).length > 0 || Boolean(filter?.formula),
    add: (query) => ({
      ...query,
      trendsFilter: {
        ...query.trendsFilter,
        formulaNodes: [{ formula: query.series.length > 1 ? "A / B" : "A" }],
      },
    }),
    remove: (query) => ({
      ...query,
      trendsFilter: without(query.trendsFilter, "formula", "formulas", "formulaNodes"),
    }),
    control: (props) => <Formulas {...props} />,
  },
  {
    id: "smoothing",
    label: "Smoothing",
    isOn: ({ trendsFilter: filter }) => (filter?.smoothingIntervals ?? 1) > 1,
    add: (query) => ({ ...query, trendsFilter: { ...query.trendsFilter, smoothingIntervals: 7 } }),
    remove: (query) => ({
      ...query,
      trendsFilter: without(query.trendsFilter, "smoothingIntervals"),
    }),
    control: ({ query, edit, disabled }) => (
      <span className="flex items-center gap-1.5 text-[0.8125rem]">
        mean of
        <NumberField
          label="Intervals"
          min={2}
          max={90}
          value={query.trendsFilter?.smoothingIntervals ?? 7}
          onChange={(count) =>
            edit(
              {
                ...query,
                trendsFilter: { ...query.trendsFilter, smoothingIntervals: count ?? 7 },
              },
              "smoothing",
            )
          }
          disabled={disabled}
        />
        {query.interval ?? "day"}s
      </span>
    ),
  },
  {
    id: "goals",
    label: "Goal line",
    isOn: ({ trendsFilter: filter }) => (filter?.goalLines ?? []).length > 0,
    add: (query) => ({
      ...query,
      trendsFilter: { ...query.trendsFilter, goalLines: [{ label: "Goal", value: 100 }] },
    }),
    remove: (query) => ({ ...query, trendsFilter: without(query.trendsFilter, "goalLines") }),
    control: ({ query, edit, disabled }) => (
      <Goals
        goals={query.trendsFilter?.goalLines ?? []}
        onChange={(goalLines) =>
          edit({ ...query, trendsFilter: { ...query.trendsFilter, goalLines } }, "goals")
        }
        disabled={disabled}
      />
    ),
  },
  {
    id: "unit",
    label: "Unit",
    isOn: ({ trendsFilter: filter }) => UNIT_KEYS.some((key) => (filter?.[key] ?? null) !== null),
    add: (query) => ({
      ...query,
      trendsFilter: { ...query.trendsFilter, aggregationAxisFormat: "numeric" },
    }),
    remove: (query) => ({ ...query, trendsFilter: without(query.trendsFilter, ...UNIT_KEYS) }),
    control: (props) => <Unit {...props} />,
  },
  groupOption<TrendsQuery>(),
];

const UNIT_KEYS = [
  "aggregationAxisFormat",
  "aggregationAxisPrefix",
  "aggregationAxisPostfix",
  "decimalPlaces",
  "minDecimalPlaces",
] as const satisfies readonly (keyof ValueUnit)[];

const FORMATS: readonly SelectOption<NonNullable<ValueUnit["aggregationAxisFormat"]>>[] = [
  { value: "numeric", label: "Number" },
  { value: "short", label: "Short number", hint: "1.2K" },
  { value: "currency", label: "Dollars" },
  { value: "percentage", label: "Percent", hint: "12 is 12%" },
  { value: "percentage_scaled", label: "Share as percent", hint: "0.12 is 12%" },
  { value: "duration", label: "Duration of seconds" },
  { value: "duration_ms", label: "Duration of milliseconds" },
];

/// The decimal places that are written without a choice.
const DECIMALS = 2;

function Unit({ query, edit, disabled }: Controls<TrendsQuery>) {
  const unit = query.trendsFilter ?? {};
  const set = (patch: ValueUnit) =>
    edit({ ...query, trendsFilter: { ...query.trendsFilter, ...patch } }, "unit");
  return (
    <div className="flex w-full flex-wrap items-center gap-1.5 text-[0.8125rem]">
      <Select
        label="Format"
        size="sm"
        value={unit.aggregationAxisFormat ?? "numeric"}
        onChange={(aggregationAxisFormat) => set({ aggregationAxisFormat })}
        options={FORMATS}
        disabled={disabled}
      />
      <Typed
        label="Before the value"
        placeholder="€"
        value={unit.aggregationAxisPrefix ?? ""}
        onCommit={(text) => set({ aggregationAxisPrefix: text || undefined })}
        disabled={disabled}
        className="w-14"
      />
      <span aria-hidden="true" className="text-muted">
        12
      </span>
      <Typed
        label="After the value"
        placeholder="kg"
        value={unit.aggregationAxisPostfix ?? ""}
        onCommit={(text) => set({ aggregationAxisPostfix: text || undefined })}
        disabled={disabled}
        className="w-14"
      />
      <NumberField
        label="Decimal places"
        min={0}
        max={10}
        value={unit.decimalPlaces ?? DECIMALS}
        onChange={(count) => set({ decimalPlaces: count ?? DECIMALS })}
        disabled={disabled}
        className="w-24"
      />
      <span aria-hidden="true">decimal places</span>
    </div>
  );
}

function Formulas({ query, edit, disabled }: Controls<TrendsQuery>) {
  const own = query.trendsFilter?.formulaNodes;
  const formulas = own && own.length > 0 ? own : formulasOf(query);
  const write = (formulaNodes: typeof formulas) =>
    edit(
      {
        ...query,
        trendsFilter: { ...without(query.trendsFilter, "formula", "formulas"), formulaNodes },
      },
      "formula",
    );
  return (
    <div className="flex w-full flex-col gap-1.5">
      {formulas.map((node, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a formula is its position.
        <div key={at} className="flex items-center gap-1.5">
          <Typed
            label={`Formula ${at + 1}`}
            placeholder="A / B * 100"
            value={node.formula}
            onCommit={(formula) =>
              write(formulas.map((item, index) => (index === at ? { ...item, formula } : item)))
            }
            disabled={disabled}
            className="min-w-24 flex-1 font-mono"
          />
          <Typed
            label={`Name of formula ${at + 1}`}
            placeholder="Name"
            value={node.custom_name ?? ""}
            onCommit={(name) =>
              write(
                formulas.map((item, index) =>
                  index === at ? { ...item, custom_name: name || undefined } : item,
                ),
              )
            }
            disabled={disabled}
            className="w-28"
          />
          {formulas.length > 1 && !disabled && (
            <IconButton
              label={`Remove formula ${at + 1}`}
              size="sm"
              onClick={() => write(formulas.filter((_, index) => index !== at))}
            >
              <X aria-hidden />
            </IconButton>
          )}
        </div>
      ))}
      <p className="text-xs text-muted">
        {query.series.length === 1
          ? "A is the series above"
          : `A to ${seriesLetter(query.series.length - 1)} are the series above`}
        ; + − * / ** % and brackets combine them.
      </p>
      {!disabled && (
        <Button
          size="sm"
          variant="ghost"
          className="self-start"
          icon={<Plus aria-hidden />}
          onClick={() => write([...formulas, { formula: "A" }])}
        >
          Formula
        </Button>
      )}
    </div>
  );
}

function Goals({
  goals,
  onChange,
  disabled,
}: {
  goals: readonly Schemas["GoalLine"][];
  onChange: (goals: Schemas["GoalLine"][]) => void;
  disabled?: boolean;
}) {
  const set = (at: number, goal: Schemas["GoalLine"]) =>
    onChange(goals.map((item, index) => (index === at ? goal : item)));
  return (
    <div className="flex w-full flex-col items-start gap-1.5">
      {goals.map((goal, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a goal is its position.
        <div key={at} className="flex items-center gap-1.5">
          <Typed
            label={`Name of goal ${at + 1}`}
            value={goal.label}
            onCommit={(label) => set(at, { ...goal, label })}
            disabled={disabled}
            className="w-28"
          />
          <Typed
            label={`Value of goal ${at + 1}`}
            value={String(goal.value)}
            inputMode="decimal"
            onCommit={(text) => set(at, { ...goal, value: Number(text) || 0 })}
            disabled={disabled}
            className="w-24"
          />
          {goals.length > 1 && !disabled && (
            <IconButton
              label={`Remove goal ${at + 1}`}
              size="sm"
              onClick={() => onChange(goals.filter((_, index) => index !== at))}
            >
              <X aria-hidden />
            </IconButton>
          )}
        </div>
      ))}
      {!disabled && (
        <Button
          size="sm"
          variant="ghost"
          icon={<Plus aria-hidden />}
          onClick={() => onChange([...goals, { label: "Goal", value: 100 }])}
        >
          Goal line
        </Button>
      )}
    </div>
  );
}

const UNITS: readonly Schemas["FunnelWindowUnit"][] = [
  "second",
  "minute",
  "hour",
  "day",
  "week",
  "month",
];

type FunnelsFilter = Schemas["FunnelsFilter"];

function funnels(query: FunnelsQuery, patch: Partial<FunnelsFilter>): FunnelsQuery {
  return { ...query, funnelsFilter: { ...query.funnelsFilter, ...patch } };
}

function removeFunnels(...keys: (keyof FunnelsFilter)[]) {
  return (query: FunnelsQuery): FunnelsQuery => ({
    ...query,
    funnelsFilter: without(query.funnelsFilter, ...keys),
  });
}

const FUNNELS: Option<FunnelsQuery>[] = [
  {
    id: "order",
    label: "Order of steps",
    isOn: ({ funnelsFilter: filter }) => filter?.funnelOrderType !== undefined,
    add: (query) => funnels(query, { funnelOrderType: "strict" }),
    remove: removeFunnels("funnelOrderType"),
    control: ({ query, edit, disabled }) => (
      <Select
        label="Order of steps"
        size="sm"
        value={query.funnelsFilter?.funnelOrderType ?? "ordered"}
        onChange={(funnelOrderType) => edit(funnels(query, { funnelOrderType }))}
        options={[
          { value: "ordered", label: "In order", hint: "Other events may lie between" },
          { value: "strict", label: "Directly in order", hint: "No other event between" },
          { value: "unordered", label: "In any order" },
        ]}
        disabled={disabled}
      />
    ),
  },
  {
    id: "complete",
    label: "Complete windows",
    isOn: ({ funnelsFilter: filter }) => filter?.hideIncompleteConversionWindowPeriods === true,
    add: (query) => funnels(query, { hideIncompleteConversionWindowPeriods: true }),
    remove: removeFunnels("hideIncompleteConversionWindowPeriods"),
    control: () => (
      <span className="text-xs text-muted">
        leaves out intervals whose conversion window has not passed
      </span>
    ),
  },
  {
    id: "window",
    label: "Conversion window",
    isOn: ({ funnelsFilter: filter }) =>
      filter?.funnelWindowInterval !== undefined || filter?.funnelWindowIntervalUnit !== undefined,
    add: (query) => funnels(query, { funnelWindowInterval: 7, funnelWindowIntervalUnit: "day" }),
    remove: removeFunnels("funnelWindowInterval", "funnelWindowIntervalUnit"),
    control: ({ query, edit, disabled }) => (
      <>
        <NumberField
          label="Length of the window"
          className="w-20"
          min={1}
          max={10_000}
          value={query.funnelsFilter?.funnelWindowInterval ?? 14}
          onChange={(count) =>
            edit(funnels(query, { funnelWindowInterval: count ?? 14 }), "window")
          }
          disabled={disabled}
        />
        <Select
          label="Unit of the window"
          size="sm"
          value={query.funnelsFilter?.funnelWindowIntervalUnit ?? "day"}
          onChange={(unit) => edit(funnels(query, { funnelWindowIntervalUnit: unit }))}
          options={UNITS.map((value) => ({ value, label: `${value}s` }))}
          disabled={disabled}
        />
      </>
    ),
  },
  {
    id: "exclusions",
    label: "Exclusions",
    field: "exclusions",
    isOn: ({ funnelsFilter: filter }) => (filter?.exclusions ?? []).length > 0,
    add: (query) =>
      funnels(query, {
        exclusions: [
          {
            kind: "EventsNode",
            event: "$exception",
            funnelFromStep: 0,
            funnelToStep: Math.max(1, query.series.length - 1),
          },
        ],
      }),
    remove: removeFunnels("exclusions"),
    control: (props) => <Exclusions {...props} />,
  },
  {
    id: "steps",
    label: "Measured steps",
    field: "steps",
    isOn: ({ funnelsFilter: filter }) =>
      filter?.funnelFromStep !== undefined || filter?.funnelToStep !== undefined,
    add: (query) =>
      funnels(query, { funnelFromStep: 0, funnelToStep: Math.max(1, query.series.length - 1) }),
    remove: removeFunnels("funnelFromStep", "funnelToStep"),
    control: ({ query, edit, disabled }) => (
      <StepRange
        query={query}
        from={query.funnelsFilter?.funnelFromStep ?? 0}
        to={query.funnelsFilter?.funnelToStep ?? query.series.length - 1}
        onChange={(from, to) => edit(funnels(query, { funnelFromStep: from, funnelToStep: to }))}
        disabled={disabled}
      />
    ),
  },
  {
    id: "attribution",
    label: "Breakdown value",
    isOn: ({ funnelsFilter: filter }) => filter?.breakdownAttributionType !== undefined,
    add: (query) => funnels(query, { breakdownAttributionType: "last_touch" }),
    remove: removeFunnels("breakdownAttributionType", "breakdownAttributionValue"),
    control: ({ query, edit, disabled }) => (
      <>
        <Select
          label="Which value counts"
          size="sm"
          value={query.funnelsFilter?.breakdownAttributionType ?? "first_touch"}
          onChange={(type) =>
            edit(
              funnels(query, {
                breakdownAttributionType: type,
                breakdownAttributionValue: type === "step" ? 0 : undefined,
              }),
            )
          }
          options={[
            { value: "first_touch", label: "First value seen" },
            { value: "last_touch", label: "Last value seen" },
            { value: "all_events", label: "Same value at all steps" },
            { value: "step", label: "Value at a step" },
          ]}
          disabled={disabled}
        />
        {query.funnelsFilter?.breakdownAttributionType === "step" && (
          <Select
            label="Step"
            size="sm"
            value={String(query.funnelsFilter.breakdownAttributionValue ?? 0)}
            onChange={(step) => edit(funnels(query, { breakdownAttributionValue: Number(step) }))}
            options={query.series.map((_, at) => ({ value: String(at), label: `Step ${at + 1}` }))}
            disabled={disabled}
          />
        )}
      </>
    ),
  },
  {
    id: "bins",
    label: "Bars of time to convert",
    isOn: ({ funnelsFilter: filter }) => typeof filter?.binCount === "number",
    add: (query) => funnels(query, { binCount: 20, funnelVizType: "time_to_convert" }),
    remove: removeFunnels("binCount"),
    control: ({ query, edit, disabled }) => (
      <NumberField
        label="Number of bars"
        min={1}
        max={90}
        value={Number(query.funnelsFilter?.binCount ?? 20)}
        onChange={(binCount) => edit(funnels(query, { binCount: binCount ?? 20 }), "bins")}
        disabled={disabled}
      />
    ),
  },
  {
    id: "hogql",
    label: "Count by SQL",
    field: "sql",
    isOn: ({ funnelsFilter: filter }) => filter?.funnelAggregateByHogQL !== undefined,
    add: (query) => funnels(query, { funnelAggregateByHogQL: "properties.$session_id" }),
    remove: removeFunnels("funnelAggregateByHogQL"),
    control: ({ query, edit, disabled }) => (
      <Typed
        label="SQL expression of what is counted"
        value={query.funnelsFilter?.funnelAggregateByHogQL ?? ""}
        onCommit={(text) => edit(funnels(query, { funnelAggregateByHogQL: text }), "hogql")}
        disabled={disabled}
        className="w-full font-mono"
      />
    ),
  },
  groupOption<FunnelsQuery>(),
];

interface StepRangeProps {
  query: FunnelsQuery;
  from: number;
  to: number;
  onChange: (from: number, to: number) => void;
  disabled?: boolean;
}

function StepRange({ query, from, to, onChange, disabled }: StepRangeProps) {
  const last = query.series.length - 1;
  const steps = query.series.map((_, at) => ({ value: String(at), label: `step ${at + 1}` }));
  return (
    <span className="flex items-center gap-1.5 text-[0.8125rem]">
      <Select
        label="From step"
        size="sm"
        value={String(Math.min(from, last))}
        onChange={(next) => onChange(Number(next), Math.max(Number(next) + 1, to))}
        options={steps.slice(0, -1)}
        disabled={disabled}
      />
      to
      <Select
        label="To step"
        size="sm"
        value={String(Math.min(to, last))}
        onChange={(next) => onChange(Math.min(from, Number(next) - 1), Number(next))}
        options={steps.slice(1)}
        disabled={disabled}
      />
    </span>
  );
}

function Exclusions({ query, edit, disabled }: Controls<FunnelsQuery>) {
  const exclusions = query.funnelsFilter?.exclusions ?? [];
  const write = (next: SeriesNode[]) => edit(funnels(query, { exclusions: next }));
  const set = (at: number, next: SeriesNode) =>
    write(exclusions.map((item, index) => (index === at ? next : item)));
  const last = Math.max(1, query.series.length - 1);
  const add = (choice: EventChoice) =>
    write([
      ...exclusions,
      { ...withChoice({ kind: "EventsNode" }, choice), funnelFromStep: 0, funnelToStep: last },
    ]);
  return (
    <div className="flex w-full flex-col items-start gap-1.5">
      <p className="text-xs text-muted">Persons who do this between the steps are left out.</p>
      {exclusions.map((node, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an exclusion is its position.
        <div key={at} className="flex flex-wrap items-center gap-1.5">
          <EventPicker
            label="Excluded event"
            size="sm"
            className="max-w-40"
            value={choiceOfNode(node)}
            onChange={(choice) => set(at, { ...withChoice(node, choice) })}
            disabled={disabled}
          />
          <StepRange
            query={query}
            from={node.funnelFromStep ?? 0}
            to={node.funnelToStep ?? last}
            onChange={(from, to) => set(at, { ...node, funnelFromStep: from, funnelToStep: to })}
            disabled={disabled}
          />
          {exclusions.length > 1 && !disabled && (
            <IconButton
              label="Remove exclusion"
              size="sm"
              onClick={() => write(exclusions.filter((_, index) => index !== at))}
            >
              <X aria-hidden />
            </IconButton>
          )}
        </div>
      ))}
      {!disabled && (
        <EventPicker
          label="Excluded event"
          value={null}
          onChange={add}
          trigger={
            <Button
              aria-label="Add exclusion"
              size="sm"
              variant="ghost"
              icon={<Plus aria-hidden />}
            >
              Exclusion
            </Button>
          }
        />
      )}
    </div>
  );
}

type RetentionFilter = Schemas["RetentionFilter"];

function retention(query: RetentionQuery, patch: Partial<RetentionFilter>): RetentionQuery {
  return { ...query, retentionFilter: { ...query.retentionFilter, ...patch } };
}

function withoutAmounts(filter: RetentionFilter | undefined): RetentionFilter | undefined {
  return without(filter, "aggregationType", "aggregationProperty", "aggregationPropertyType");
}

function AmountControl({ query, edit, disabled }: Controls<RetentionQuery>) {
  const filter = query.retentionFilter ?? {};
  const ofPerson = filter.aggregationPropertyType === "person";
  const returning = filter.returningEntity;
  const event =
    returning?.type !== "actions" && typeof returning?.id === "string" ? [returning.id] : undefined;
  return (
    <span className="flex flex-wrap items-center gap-1.5 text-[0.8125rem]">
      <Select
        label="How amounts are combined"
        size="sm"
        value={filter.aggregationType ?? "sum"}
        onChange={(aggregationType) => edit(retention(query, { aggregationType }))}
        options={[
          { value: "sum", label: "sum" },
          { value: "avg", label: "average per person" },
        ]}
        disabled={disabled}
      />
      of
      <PropertyPicker
        label="Property to add up"
        size="sm"
        className="max-w-44"
        sources={["event", "person"]}
        events={event}
        numericOnly
        value={
          filter.aggregationProperty
            ? { type: ofPerson ? "person" : "event", key: filter.aggregationProperty }
            : null
        }
        onChange={({ type, key }) =>
          edit(
            retention(query, {
              aggregationProperty: key,
              aggregationPropertyType: type === "person" ? "person" : "event",
            }),
          )
        }
        disabled={disabled}
      />
    </span>
  );
}

const RETENTION: Option<RetentionQuery>[] = [
  {
    id: "cumulative",
    label: "On or after",
    isOn: ({ retentionFilter: filter }) => filter?.cumulative === true,
    add: (query) =>
      retention(
        { ...query, retentionFilter: withoutAmounts(query.retentionFilter) },
        { cumulative: true },
      ),
    remove: (query) => ({
      ...query,
      retentionFilter: without(query.retentionFilter, "cumulative"),
    }),
    control: () => <span className="text-xs text-muted">counts who came back then or later</span>,
  },
  {
    id: "occurrences",
    label: "At least",
    isOn: ({ retentionFilter: filter }) => (filter?.minimumOccurrences ?? 1) > 1,
    add: (query) => retention(query, { minimumOccurrences: 2 }),
    remove: (query) => ({
      ...query,
      retentionFilter: without(query.retentionFilter, "minimumOccurrences"),
    }),
    control: ({ query, edit, disabled }) => (
      <span className="flex items-center gap-1.5 text-[0.8125rem]">
        <NumberField
          label="Events a period"
          min={2}
          max={1_000}
          value={query.retentionFilter?.minimumOccurrences ?? 2}
          onChange={(count) => edit(retention(query, { minimumOccurrences: count ?? 2 }), "min")}
          disabled={disabled}
        />
        events a period
      </span>
    ),
  },
  {
    id: "amounts",
    label: "Amounts",
    isOn: ({ retentionFilter: filter }) => (filter?.aggregationType ?? "count") !== "count",
    // The server sums neither over later periods nor in windows.
    add: (query) =>
      retention(
        {
          ...query,
          retentionFilter: without(query.retentionFilter, "cumulative", "timeWindowMode"),
        },
        { aggregationType: "sum" },
      ),
    remove: (query) => ({ ...query, retentionFilter: withoutAmounts(query.retentionFilter) }),
    control: AmountControl,
  },
  {
    id: "windows",
    label: "24-hour windows",
    isOn: ({ retentionFilter: filter }) => filter?.timeWindowMode === "24_hour_windows",
    add: (query) =>
      retention(
        {
          ...query,
          retentionFilter: withoutAmounts(without(query.retentionFilter, "cumulative")),
        },
        { timeWindowMode: "24_hour_windows" },
      ),
    remove: (query) => ({
      ...query,
      retentionFilter: without(query.retentionFilter, "timeWindowMode"),
    }),
    control: () => (
      <span className="text-xs text-muted">counts from each person's first start, not by date</span>
    ),
  },
  {
    id: "brackets",
    label: "Brackets",
    isOn: ({ retentionFilter: filter }) => filter?.retentionCustomBrackets !== undefined,
    add: (query) => retention(query, { retentionCustomBrackets: [1, 6, 7, 14] }),
    remove: (query) => ({
      ...query,
      retentionFilter: without(query.retentionFilter, "retentionCustomBrackets"),
    }),
    control: ({ query, edit, disabled }) => (
      <span className="flex flex-wrap items-center gap-1.5 text-[0.8125rem]">
        <Typed
          label="Periods in each column"
          placeholder="1, 6, 7, 14"
          value={(query.retentionFilter?.retentionCustomBrackets ?? []).join(", ")}
          onCommit={(text) => {
            const sizes = text.split(/[\s,]+/).map(Number);
            const valid = sizes.filter((size) => Number.isInteger(size) && size > 0);
            edit(retention(query, { retentionCustomBrackets: valid }), "brackets");
          }}
          disabled={disabled}
          className="max-w-40"
        />
        {(query.retentionFilter?.period ?? "Day").toLowerCase()}s in each column
      </span>
    ),
  },
  groupOption<RetentionQuery>(),
];

const STATUSES = Object.keys(LIFECYCLE) as LifecycleStatus[];

const LIFECYCLES: Option<LifecycleQuery>[] = [
  {
    id: "statuses",
    label: "Shown",
    isOn: ({ lifecycleFilter: filter }) => filter?.toggledLifecycles !== undefined,
    add: (query) => ({ ...query, lifecycleFilter: { toggledLifecycles: [...STATUSES] } }),
    remove: ({ lifecycleFilter: _, ...query }) => query,
    control: ({ query, edit, disabled }) => {
      const shown = query.lifecycleFilter?.toggledLifecycles ?? STATUSES;
      return STATUSES.map((status) => (
        <Checkbox
          key={status}
          label={LIFECYCLE[status].label}
          checked={shown.includes(status)}
          disabled={disabled}
          onChange={(on) =>
            edit({
              ...query,
              lifecycleFilter: {
                toggledLifecycles: STATUSES.filter((one) =>
                  one === status ? on : shown.includes(one),
                ),
              },
            })
          }
        />
      ));
    },
  },
  groupOption<LifecycleQuery>(),
];

type StickinessFilter = Schemas["StickinessFilter"];

function stickiness(query: StickinessQuery, patch: Partial<StickinessFilter>): StickinessQuery {
  return { ...query, stickinessFilter: { ...query.stickinessFilter, ...patch } };
}

const STICKINESS: Option<StickinessQuery>[] = [
  {
    id: "criteria",
    label: "Active means",
    isOn: ({ stickinessFilter: filter }) => filter?.stickinessCriteria !== undefined,
    add: (query) => stickiness(query, { stickinessCriteria: { operator: "gte", value: 2 } }),
    remove: (query) => ({
      ...query,
      stickinessFilter: without(query.stickinessFilter, "stickinessCriteria"),
    }),
    control: ({ query, edit, disabled }) => {
      const criteria = query.stickinessFilter?.stickinessCriteria ?? { operator: "gte", value: 1 };
      return (
        <span className="flex flex-wrap items-center gap-1.5 text-[0.8125rem]">
          <Select
            label="Comparison"
            size="sm"
            value={criteria.operator}
            onChange={(operator) =>
              edit(stickiness(query, { stickinessCriteria: { ...criteria, operator } }))
            }
            options={[
              { value: "gte", label: "at least" },
              { value: "lte", label: "at most" },
              { value: "exact", label: "exactly" },
            ]}
            disabled={disabled}
          />
          <NumberField
            label="Events"
            min={1}
            max={100_000}
            value={criteria.value}
            onChange={(value) =>
              edit(
                stickiness(query, { stickinessCriteria: { ...criteria, value: value ?? 1 } }),
                "criteria",
              )
            }
            disabled={disabled}
          />
          events a {query.interval ?? "day"}
        </span>
      );
    },
  },
  {
    id: "cumulative",
    label: "Cumulative",
    isOn: ({ stickinessFilter: filter }) => filter?.computedAs === "cumulative",
    add: (query) => stickiness(query, { computedAs: "cumulative" }),
    remove: (query) => ({
      ...query,
      stickinessFilter: without(query.stickinessFilter, "computedAs"),
    }),
    control: () => (
      <span className="text-xs text-muted">counts who were active so often or more</span>
    ),
  },
  {
    id: "intervalCount",
    label: "Windows",
    isOn: ({ intervalCount }) => (intervalCount ?? 1) > 1,
    add: (query) => ({ ...query, intervalCount: 2 }),
    remove: ({ intervalCount: _, ...query }) => query,
    control: ({ query, edit, disabled }) => (
      <span className="flex items-center gap-1.5 text-[0.8125rem]">
        of
        <NumberField
          label="Intervals in a window"
          min={2}
          max={1_000}
          value={query.intervalCount ?? 2}
          onChange={(count) => edit({ ...query, intervalCount: count ?? 2 }, "windows")}
          disabled={disabled}
        />
        {query.interval ?? "day"}s
      </span>
    ),
  },
  groupOption<StickinessQuery>(),
];

type PathsFilter = Schemas["PathsFilter"];

export function paths(query: PathsQuery, patch: Partial<PathsFilter>): PathsQuery {
  return { ...query, pathsFilter: { ...query.pathsFilter, ...patch } };
}

function removePaths(...keys: (keyof PathsFilter)[]) {
  return (query: PathsQuery): PathsQuery => ({
    ...query,
    pathsFilter: without(query.pathsFilter, ...keys),
  });
}

function pathNumber(
  id: keyof PathsFilter & ("stepLimit" | "edgeLimit" | "minEdgeWeight" | "maxEdgeWeight"),
  label: string,
  start: number,
  max: number,
  after: string,
): Option<PathsQuery> {
  return {
    id,
    label,
    isOn: ({ pathsFilter: filter }) => filter?.[id] !== undefined,
    add: (query) => paths(query, { [id]: start }),
    remove: removePaths(id),
    control: ({ query, edit, disabled }) => (
      <span className="flex items-center gap-1.5 text-[0.8125rem]">
        <NumberField
          label={label}
          min={id === "stepLimit" ? 2 : 1}
          max={max}
          value={query.pathsFilter?.[id] ?? start}
          onChange={(value) => edit(paths(query, { [id]: value ?? start }), id)}
          disabled={disabled}
        />
        {after}
      </span>
    ),
  };
}

const PATHS: Option<PathsQuery>[] = [
  pathNumber("stepLimit", "Steps", 8, 20, "at most"),
  pathNumber("edgeLimit", "Connections", 100, 10_000, "at most, the commonest first"),
  pathNumber("minEdgeWeight", "Taken at least", 5, 1_000_000_000, "times"),
  pathNumber("maxEdgeWeight", "Taken at most", 1_000, 1_000_000_000, "times"),
  {
    id: "exclude",
    label: "Leave out",
    isOn: ({ pathsFilter: filter }) => filter?.excludeEvents !== undefined,
    add: (query) => paths(query, { excludeEvents: [] }),
    remove: removePaths("excludeEvents"),
    control: ({ query, edit, disabled }) => (
      <TextList
        label="page or event left out"
        placeholder="/settings"
        values={query.pathsFilter?.excludeEvents ?? []}
        onChange={(excludeEvents) => edit(paths(query, { excludeEvents }))}
        disabled={disabled}
      />
    ),
  },
  {
    id: "groupings",
    label: "Wildcards",
    isOn: ({ pathsFilter: filter }) => filter?.pathGroupings !== undefined,
    add: (query) => paths(query, { pathGroupings: [] }),
    remove: removePaths("pathGroupings"),
    control: ({ query, edit, disabled }) => (
      <TextList
        label="wildcard"
        placeholder="/products/*"
        values={query.pathsFilter?.pathGroupings ?? []}
        onChange={(pathGroupings) => edit(paths(query, { pathGroupings }))}
        disabled={disabled}
      />
    ),
  },
  {
    id: "cleaning",
    label: "Replace by regex",
    isOn: ({ pathsFilter: filter }) => filter?.localPathCleaningFilters !== undefined,
    add: (query) => paths(query, { localPathCleaningFilters: [{ regex: "", alias: "" }] }),
    remove: removePaths("localPathCleaningFilters"),
    control: (props) => <Cleaning {...props} />,
  },
  {
    id: "replacements",
    label: "Project’s path rules",
    isOn: ({ pathsFilter: filter }) => filter?.pathReplacements === true,
    add: (query) => paths(query, { pathReplacements: true }),
    remove: removePaths("pathReplacements"),
    control: () => <span className="text-xs text-muted">as set for the project</span>,
  },
  {
    id: "urls",
    label: "Full URLs",
    isOn: ({ pathsFilter: filter }) => filter?.showFullUrls === true,
    add: (query) => paths(query, { showFullUrls: true }),
    remove: removePaths("showFullUrls"),
    control: () => <span className="text-xs text-muted">with their host</span>,
  },
  groupOption<PathsQuery>(),
];

interface TextListProps {
  label: string;
  placeholder: string;
  values: readonly string[];
  onChange: (values: string[]) => void;
  disabled?: boolean;
}

function TextList({ label, placeholder, values, onChange, disabled }: TextListProps) {
  return (
    <div className="flex w-full flex-col items-start gap-1">
      {[...values, ...(disabled ? [] : [""])].map((value, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an entry is its position.
        <span key={at} className="flex w-full items-center gap-1">
          <Typed
            label={at < values.length ? `${label} ${at + 1}` : `New ${label}`}
            placeholder={placeholder}
            value={value}
            onCommit={(text) => {
              const next = [...values];
              if (text) next[at] = text;
              else next.splice(at, 1);
              onChange(next);
            }}
            disabled={disabled}
            className="min-w-0 flex-1"
          />
          {at < values.length && !disabled && (
            <IconButton
              label={`Remove ${value}`}
              size="sm"
              onClick={() => onChange(values.filter((_, index) => index !== at))}
            >
              <X aria-hidden />
            </IconButton>
          )}
        </span>
      ))}
    </div>
  );
}

function Cleaning({ query, edit, disabled }: Controls<PathsQuery>) {
  const rules = query.pathsFilter?.localPathCleaningFilters ?? [];
  const write = (next: typeof rules) =>
    edit(paths(query, { localPathCleaningFilters: next }), "cleaning");
  const set = (at: number, patch: Partial<(typeof rules)[number]>) =>
    write(rules.map((rule, index) => (index === at ? { ...rule, ...patch } : rule)));
  return (
    <div className="flex w-full flex-col items-start gap-1">
      {rules.map((rule, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a rule is its position.
        <span key={at} className="flex w-full items-center gap-1">
          <Typed
            label={`Regex ${at + 1}`}
            placeholder="/user/\d+"
            value={rule.regex ?? ""}
            onCommit={(regex) => set(at, { regex })}
            disabled={disabled}
            className="min-w-0 flex-1 font-mono"
          />
          <span className="text-muted">→</span>
          <Typed
            label={`Replacement ${at + 1}`}
            placeholder="/user/id"
            value={rule.alias ?? ""}
            onCommit={(alias) => set(at, { alias })}
            disabled={disabled}
            className="min-w-0 flex-1 font-mono"
          />
          {rules.length > 1 && !disabled && (
            <IconButton
              label={`Remove rule ${at + 1}`}
              size="sm"
              onClick={() => write(rules.filter((_, index) => index !== at))}
            >
              <X aria-hidden />
            </IconButton>
          )}
        </span>
      ))}
      {!disabled && (
        <Button
          size="sm"
          variant="ghost"
          icon={<Plus aria-hidden />}
          onClick={() => write([...rules, { regex: "", alias: "" }])}
        >
          Rule
        </Button>
      )}
    </div>
  );
}

const OPTIONS = {
  TrendsQuery: TRENDS,
  FunnelsQuery: FUNNELS,
  RetentionQuery: RETENTION,
  LifecycleQuery: LIFECYCLES,
  StickinessQuery: STICKINESS,
  PathsQuery: PATHS,
} as unknown as Record<InsightQuery["kind"], Option<InsightQuery>[]>;

export interface OptionsEditorProps {
  query: InsightQuery;
  edit: Edit;
  disabled?: boolean;
}

/// The options of a kind: those in use with their controls, the rest behind "Add option".
export function OptionsEditor({ query, edit, disabled }: OptionsEditorProps) {
  const options = OPTIONS[query.kind];
  const on = options.filter((option) => option.isOn(query));
  const off = options.filter((option) => !option.isOn(query));
  return (
    <div className="flex flex-col gap-1.5">
      {on.map((option) => (
        <OptionRow
          key={option.id}
          label={option.label}
          onRemove={() => edit(option.remove(query))}
          disabled={disabled}
        >
          {option.control?.({ query, edit, disabled })}
        </OptionRow>
      ))}
      {!disabled && off.length > 0 && (
        <Menu
          trigger={
            <Button
              size="sm"
              variant="ghost"
              className="-ml-2 self-start"
              icon={<Plus aria-hidden />}
            >
              Add option
            </Button>
          }
          items={off.map((option) => ({
            label: option.label,
            onSelect: () => edit(option.add(query)),
          }))}
        />
      )}
    </div>
  );
}
