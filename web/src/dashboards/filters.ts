import * as v from "valibot";
import type { Schemas } from "@/api/client";

/// The filters of a dashboard or tile, as the API stores them.
export type Filters = Schemas["Dashboard"]["filters"];

export const INTERVALS = ["hour", "day", "week", "month"] as const;
const BREAKDOWN_TYPES = ["event", "person"] as const;

const PropertyFilters = v.union([
  v.array(v.looseObject({ key: v.string() })),
  v.looseObject({ type: v.picklist(["AND", "OR"]), values: v.array(v.looseObject({})) }),
]);

const text = v.fallback(
  v.optional(v.pipe(v.union([v.string(), v.number()]), v.transform(String))),
  undefined,
);

/// Filters in the URL. They change what is seen and never what is saved.
export const DashboardSearch = v.object({
  date_from: text,
  date_to: text,
  interval: v.fallback(v.optional(v.picklist(INTERVALS)), undefined),
  properties: v.fallback(v.optional(PropertyFilters), undefined),
  /// A property of events, or `person:` and a property of persons; empty for none.
  breakdown: text,
  /// Values of the variables that SQL names.
  variables: v.fallback(
    v.optional(v.record(v.string(), v.nullable(v.union([v.string(), v.number(), v.boolean()])))),
    undefined,
  ),
});
export type DashboardSearch = v.InferOutput<typeof DashboardSearch>;

export interface Breakdown {
  type: (typeof BREAKDOWN_TYPES)[number];
  property: string;
}

export function readBreakdown(value: string | undefined): Breakdown | null {
  if (!value) return null;
  return value.startsWith("person:")
    ? { type: "person", property: value.slice("person:".length) }
    : { type: "event", property: value };
}

export function writeBreakdown({ type, property }: Breakdown): string {
  return type === "person" ? `person:${property}` : property;
}

/// Whether the URL says anything about a dashboard's filters.
export function hasFilters(search: DashboardSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}

function isEmpty(properties: { values?: unknown[] } | unknown[] | null | undefined): boolean {
  const values = Array.isArray(properties) ? properties : properties?.values;
  return !Array.isArray(values) || values.length === 0;
}

/// The stored filters in the form of the URL, for controls that show them.
export function searchOf(filters: Filters): DashboardSearch {
  const breakdown = filters.breakdown_filter;
  const property = typeof breakdown?.breakdown === "string" ? breakdown.breakdown : undefined;
  const { properties } = filters;
  return v.parse(DashboardSearch, {
    date_from: filters.date_from ?? undefined,
    date_to: filters.date_to ?? undefined,
    interval: filters.interval ?? undefined,
    properties: isEmpty(properties) ? undefined : properties,
    breakdown:
      property &&
      writeBreakdown({
        type: breakdown?.breakdown_type === "person" ? "person" : "event",
        property,
      }),
  });
}

/// What is shown: what the URL says, and the saved filters where it says nothing. A date in the URL
/// replaces the whole saved range.
export function effectiveSearch(search: DashboardSearch, saved: Filters): DashboardSearch {
  const stored = searchOf(saved);
  const ranged = search.date_from !== undefined || search.date_to !== undefined;
  return {
    date_from: ranged ? search.date_from : stored.date_from,
    date_to: ranged ? search.date_to : stored.date_to,
    interval: search.interval ?? stored.interval,
    properties: search.properties ?? stored.properties,
    breakdown: search.breakdown ?? stored.breakdown,
  };
}

/// The filters to send to the API: the saved ones with those of the URL on top.
export function filtersOf(search: DashboardSearch, saved: Filters): Filters {
  const shown = effectiveSearch(search, saved);
  const breakdown = readBreakdown(shown.breakdown);
  const filters: Filters = { ...saved };
  const set = <Name extends keyof Filters>(name: Name, value: unknown) => {
    if (value === undefined || value === "") delete filters[name];
    else filters[name] = value as Filters[Name];
  };
  set("date_from", shown.date_from);
  set("date_to", shown.date_to);
  set("interval", shown.interval);
  set("properties", isEmpty(shown.properties) ? undefined : shown.properties);
  if (search.breakdown !== undefined) {
    set(
      "breakdown_filter",
      breakdown ? { breakdown: breakdown.property, breakdown_type: breakdown.type } : undefined,
    );
  }
  return filters;
}

/// Whether a range still grows, so that new events change its numbers.
export function reachesNow(dateTo: string | null | undefined, now: Date = new Date()): boolean {
  if (!dateTo) return true;
  if (/^[-+]/.test(dateTo)) return dateTo.startsWith("+");
  const end = new Date(dateTo.length === 10 ? `${dateTo}T23:59:59` : dateTo);
  return Number.isNaN(end.getTime()) || end >= now;
}

const HAS_INTERVAL = ["TrendsQuery", "FunnelsQuery"];
const HAS_BREAKDOWN = ["TrendsQuery", "FunnelsQuery", "RetentionQuery"];

/// A query with the filters of its dashboard and tile on top, lowest first: what a tile draws.
export function withFilters<Query>(query: Query, layers: readonly Filters[]): Query {
  if (typeof query !== "object" || query === null) return query;
  if ("source" in query) return { ...query, source: withFilters(query.source, layers) };
  const kind = "kind" in query ? String(query.kind) : "";
  const changed: Query & Partial<Schemas["TrendsQuery"]> = { ...query };
  for (const layer of layers) {
    if (layer.date_from || layer.date_to) {
      changed.dateRange = { date_from: layer.date_from, date_to: layer.date_to };
    }
    if (layer.interval && HAS_INTERVAL.includes(kind)) {
      changed.interval = layer.interval;
    }
    if (layer.breakdown_filter && HAS_BREAKDOWN.includes(kind)) {
      changed.breakdownFilter = layer.breakdown_filter;
    }
  }
  return changed;
}
