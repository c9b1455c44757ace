/// Points of a result: what a click names, and the query for the persons behind it.

import type { Schemas } from "@/api/client";
import { type Interval, intervalLabel } from "@/ui/format";
import { entityName, seriesName, seriesTitle } from "./names";
import {
  type Answer,
  type BreakdownValue,
  breakdownLabel,
  formulasOf,
  type InsightQuery,
  resultsOf,
} from "./queries";
import { funnelSteps, funnelTrends, LIFECYCLE } from "./results";
import { zonedTime } from "./zones";

/// A point as the URL names it: the position of its item in the results, and its place there.
export interface PointRef {
  item: number;
  /// A day of trends, a step of funnels (negative for those who dropped off), a number of periods, or the
  /// ends of an edge as `1_/a>2_/b`; empty for a total.
  at: string;
}

export function writePoint({ item, at }: PointRef): string {
  return `${item}.${at}`;
}

export function readPoint(text: string | undefined): PointRef | null {
  const parts = /^(\d{1,4})\.(.*)$/s.exec(text ?? "");
  return parts ? { item: Number(parts[1]), at: parts[2] ?? "" } : null;
}

export interface Point {
  title: string;
  /// Where it lies, as in "Tue, Nov 3, 2026".
  place: string;
  value: number | null;
  /// The source of an `ActorsQuery`; null where the value has no persons of its own.
  actors: Schemas["DrillDownSource"] | null;
  /// Why there are none.
  reason?: string;
}

function withoutEmpty<const T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T;
}

function placeOf(day: string, interval: Interval, timeZone: string): string {
  const at = new Date(zonedTime(day, timeZone));
  return Number.isNaN(at.getTime()) ? day : intervalLabel(at, interval, timeZone);
}

function rangeOf(answer: Answer, timeZone: string): string {
  const range = answer.resolved_date_range;
  if (!range) return "The whole range";
  const day = (text: string) => intervalLabel(new Date(text), "day", timeZone);
  return `${day(range.date_from)} – ${day(range.date_to)}`;
}

function segment(title: string, value: BreakdownValue | null | undefined): string {
  return value === undefined ? title : `${title} · ${breakdownLabel(value)}`;
}

/// The point of a result; null if the result has none there (any more).
export function pointOf(
  query: InsightQuery,
  answer: Answer,
  ref: PointRef,
  timeZone: string,
): Point | null {
  const source = query;
  switch (query.kind) {
    case "TrendsQuery": {
      const item = resultsOf(query, answer)[ref.item];
      if (!item) return null;
      const formula = formulasOf(query).length > 0;
      const node = query.series[item.action?.order ?? 0];
      const title = segment(
        formula || !node ? (item.label ?? "") : seriesTitle(node),
        item.breakdown_value,
      );
      const total = ref.at === "";
      const index = (item.days ?? []).map(String).indexOf(ref.at);
      if (!total && index < 0) return null;
      const value = total ? (item.aggregated_value ?? null) : (item.data?.[index] ?? null);
      const place = total
        ? rangeOf(answer, timeZone)
        : placeOf(ref.at, query.interval ?? "day", timeZone);
      if (formula) {
        const reason =
          "A formula combines several numbers. Remove it to open the persons of one of its series.";
        return { title, place, value, actors: null, reason };
      }
      const actors = withoutEmpty({
        kind: "InsightActorsQuery",
        source,
        series: item.action?.order ?? 0,
        day: total ? undefined : ref.at,
        breakdown: item.breakdown_value,
        compare: item.compare_label,
      });
      return { title, place, value, actors };
    }
    case "StickinessQuery": {
      const item = resultsOf(query, answer)[ref.item];
      const index = Number(ref.at) - 1;
      if (!item || item.data?.[index] === undefined) return null;
      const node = query.series[item.action?.order ?? 0];
      return {
        title: node ? seriesName(node) : (item.label ?? ""),
        place: `Active in ${item.labels?.[index] ?? ref.at}`,
        value: item.data[index] ?? null,
        actors: withoutEmpty({
          kind: "InsightActorsQuery",
          source,
          series: item.action?.order ?? 0,
          day: Number(ref.at),
          compare: item.compare_label,
        }),
      };
    }
    case "LifecycleQuery": {
      const item = resultsOf(query, answer)[ref.item];
      const index = (item?.days ?? []).map(String).indexOf(ref.at);
      if (!item || index < 0) return null;
      const { status } = item;
      return {
        title: `${LIFECYCLE[status].label} · ${query.series.map(seriesName).join(", ")}`,
        place: placeOf(ref.at, query.interval ?? "day", timeZone),
        value: Math.abs(item.data[index] ?? 0),
        actors: { kind: "InsightActorsQuery", source, day: ref.at, status },
      };
    }
    case "FunnelsQuery":
      return funnelPoint(query, answer, ref, timeZone);
    case "RetentionQuery": {
      const rows = resultsOf(query, answer);
      const row = rows[ref.item];
      const later = Number(ref.at);
      const cell = row?.values[later];
      if (!row || !cell) return null;
      const own = JSON.stringify(row.breakdown_value);
      const interval = rows
        .slice(0, ref.item)
        .filter(({ breakdown_value }) => JSON.stringify(breakdown_value) === own).length;
      const period = query.retentionFilter?.period ?? "Day";
      const label = intervalLabel(new Date(row.date), period.toLowerCase() as Interval, timeZone);
      const filter = query.retentionFilter;
      return {
        title: segment(
          later === 0
            ? entityName(filter?.targetEntity)
            : `${entityName(filter?.returningEntity)}, ${cell.label.toLowerCase()}`,
          row.breakdown_value,
        ),
        place: `Cohort of ${label}`,
        value: cell.count,
        actors: withoutEmpty({
          kind: "InsightActorsQuery",
          source,
          interval,
          day: later,
          breakdown: row.breakdown_value,
        }),
      };
    }
    case "PathsQuery": {
      const edges = resultsOf(query, answer);
      const edge = edges.find(({ source: a, target: b }) => `${a}>${b}` === ref.at);
      const from = edge?.source ?? (ref.at.endsWith(">") ? ref.at.slice(0, -1) : "");
      const to = edge?.target ?? (ref.at.startsWith(">") ? ref.at.slice(1) : "");
      if (!from && !to) return null;
      const name = (node: string) => node.replace(/^\d+_/, "");
      const matching = edges.filter(
        ({ source: a, target: b }) => (!from || a === from) && (!to || b === to),
      );
      if (matching.length === 0) return null;
      return {
        title: from && to ? `${name(from)} → ${name(to)}` : `${name(to || from)}`,
        place: rangeOf(answer, timeZone),
        value: matching.reduce((sum, { value }) => sum + value, 0),
        actors: {
          kind: "InsightActorsQuery",
          source: {
            ...query,
            pathsFilter: withoutEmpty({
              ...query.pathsFilter,
              pathStartKey: from || undefined,
              pathEndKey: to || undefined,
            }),
          },
        },
      };
    }
  }
}

function funnelPoint(
  query: Extract<InsightQuery, { kind: "FunnelsQuery" }>,
  answer: Answer,
  ref: PointRef,
  timeZone: string,
): Point | null {
  const viz = query.funnelsFilter?.funnelVizType;
  const steps = query.series.map(seriesName).join(" → ");
  if (viz === "time_to_convert") return null;
  if (viz === "trends") {
    const item = funnelTrends(resultsOf(query, answer))[ref.item];
    const index = (item?.days ?? []).map(String).indexOf(ref.at);
    if (!item || index < 0) return null;
    return {
      title: segment(`Converted: ${steps}`, item.breakdown_value),
      place: `Entered on ${placeOf(ref.at, query.interval ?? "day", timeZone)}`,
      value: null,
      actors: withoutEmpty({
        kind: "FunnelsActorsQuery",
        source: query,
        funnelTrendsEntrancePeriodStart: ref.at,
        funnelTrendsDropOff: false,
        funnelStepBreakdown: item.breakdown_value,
        compare: item.compare_label ?? undefined,
      }),
    };
  }
  const funnel = funnelSteps(resultsOf(query, answer))[ref.item];
  const number = Math.abs(Number(ref.at));
  const step = funnel?.[number - 1];
  if (!funnel || !step) return null;
  const dropped = ref.at.startsWith("-");
  const required = funnel
    .slice(0, number - 1)
    .findLast(({ order }) => !query.series[order]?.optionalInFunnel);
  const before = required?.count ?? 0;
  const node = query.series[step.order];
  const name = node ? seriesName(node) : step.name;
  return {
    title: segment(
      dropped ? `Dropped off before step ${number}: ${name}` : `Reached step ${number}: ${name}`,
      step.breakdown_value ?? undefined,
    ),
    place: rangeOf(answer, timeZone),
    value: dropped ? before - step.count : step.count,
    actors: withoutEmpty({
      kind: "FunnelsActorsQuery",
      source: query,
      funnelStep: dropped ? -number : number,
      funnelStepBreakdown: step.breakdown_value ?? undefined,
      compare: step.compare_label ?? undefined,
    }),
  };
}
