/// New queries of each kind, and what of one a change of kind keeps.

import { completeFilters } from "@/filters/operators";
import type { InsightKind, InsightQuery, RetentionEntity, SeriesNode } from "./queries";

export function eventNode(event: string | null): SeriesNode {
  return event === null ? { kind: "EventsNode", event: null } : { kind: "EventsNode", event };
}

export function newQuery(kind: InsightKind, event: string | null): InsightQuery {
  return convertQuery(
    {
      kind: "TrendsQuery",
      series: [eventNode(event)],
      interval: "day",
      dateRange: { date_from: "-7d" },
    },
    kind,
  );
}

function entityOf(node: SeriesNode | undefined): RetentionEntity {
  if (!node) return { id: "$pageview", type: "events" };
  return node.kind === "ActionsNode"
    ? { id: node.id, name: node.name, type: "actions", properties: node.properties }
    : { id: node.event ?? null, type: "events", properties: node.properties };
}

function nodeOf(entity: RetentionEntity | null | undefined): SeriesNode {
  if (!entity) return eventNode("$pageview");
  const properties = entity.properties;
  return entity.type === "actions"
    ? { kind: "ActionsNode", id: Number(entity.id), name: entity.name, properties }
    : {
        ...eventNode(entity.id === null || entity.id === undefined ? null : String(entity.id)),
        properties,
      };
}

function plainNode({ kind, event, id, name, custom_name, properties }: SeriesNode): SeriesNode {
  return kind === "ActionsNode"
    ? { kind, id, name, custom_name, properties }
    : { kind, event, custom_name, properties };
}

function seriesOf(query: InsightQuery): SeriesNode[] {
  if ("series" in query) return query.series;
  if (query.kind === "RetentionQuery") {
    const { targetEntity, returningEntity } = query.retentionFilter ?? {};
    const nodes = [nodeOf(targetEntity), nodeOf(returningEntity)];
    return JSON.stringify(nodes[0]) === JSON.stringify(nodes[1]) ? nodes.slice(0, 1) : nodes;
  }
  return [eventNode("$pageview")];
}

/// The same events, filters and range, asked in another way.
export function convertQuery(query: InsightQuery, kind: InsightKind): InsightQuery {
  if (query.kind === kind) return query;
  const series = seriesOf(query);
  const base = {
    dateRange: query.dateRange,
    properties: query.properties,
    filterTestAccounts: query.filterTestAccounts,
    aggregation_group_type_index: query.aggregation_group_type_index,
  };
  const interval = "interval" in query ? query.interval : "day";
  const breakdownFilter = "breakdownFilter" in query ? query.breakdownFilter : undefined;
  const compareFilter = "compareFilter" in query ? query.compareFilter : undefined;
  const first = series[0] ?? eventNode("$pageview");
  switch (kind) {
    case "TrendsQuery":
      return { kind, series, interval, breakdownFilter, compareFilter, ...base };
    case "FunnelsQuery":
      return {
        kind,
        series: series.map(plainNode),
        breakdownFilter: firstOnly(breakdownFilter),
        ...base,
      };
    case "RetentionQuery":
      return {
        kind,
        retentionFilter: {
          targetEntity: entityOf(first),
          returningEntity: entityOf(series[1] ?? first),
          period: "Day",
          totalIntervals: 8,
        },
        breakdownFilter: firstOnly(breakdownFilter),
        ...base,
        dateRange: undefined,
      };
    case "LifecycleQuery":
      return { kind, series: [plainNode(first)], interval, ...base };
    case "StickinessQuery":
      return { kind, series: series.map(plainNode), interval, compareFilter, ...base };
    case "PathsQuery":
      return { kind, pathsFilter: { includeEventTypes: ["$pageview"] }, ...base };
  }
}

/// Funnels and retention take one breakdown.
function firstOnly<T extends { breakdowns?: unknown[] }>(filter: T | undefined): T | undefined {
  if (!filter?.breakdowns || filter.breakdowns.length < 2) return filter;
  return { ...filter, breakdowns: filter.breakdowns.slice(0, 1) };
}

function runnableNode<T extends SeriesNode>(node: T): T {
  const { name: _, ...rest } = node;
  return { ...rest, properties: completeFilters(node.properties) } as T;
}

function runnableEntity(entity: RetentionEntity | null | undefined): RetentionEntity | undefined {
  if (!entity) return undefined;
  return { ...entity, properties: completeFilters(entity.properties) };
}

/// The query that is sent: without filters, formulas and goals that are still being written.
export function runnableQuery(query: InsightQuery): InsightQuery {
  const base = { properties: completeFilters(query.properties) };
  switch (query.kind) {
    case "TrendsQuery": {
      const filter = query.trendsFilter;
      const formulaNodes = filter?.formulaNodes?.filter(({ formula }) => formula.trim() !== "");
      return {
        ...query,
        ...base,
        series: query.series.map(runnableNode),
        trendsFilter: filter && {
          ...filter,
          formulaNodes: formulaNodes && formulaNodes.length > 0 ? formulaNodes : undefined,
        },
      };
    }
    case "FunnelsQuery":
      return {
        ...query,
        ...base,
        series: query.series.map(runnableNode),
        funnelsFilter: query.funnelsFilter && {
          ...query.funnelsFilter,
          exclusions: query.funnelsFilter.exclusions?.map(runnableNode),
        },
      };
    case "RetentionQuery":
      return {
        ...query,
        ...base,
        retentionFilter: query.retentionFilter && {
          ...query.retentionFilter,
          targetEntity: runnableEntity(query.retentionFilter.targetEntity),
          returningEntity: runnableEntity(query.retentionFilter.returningEntity),
        },
      };
    case "PathsQuery": {
      const filter = query.pathsFilter;
      return {
        ...query,
        ...base,
        pathsFilter: filter && {
          ...filter,
          localPathCleaningFilters: filter.localPathCleaningFilters?.filter(
            ({ regex }) => regex !== "",
          ),
        },
      };
    }
    default:
      return { ...query, ...base, series: query.series.map(runnableNode) };
  }
}

/// What keeps a draft from being asked, in a sentence; null if nothing does.
export function whyNotRunnable(query: InsightQuery): string | null {
  if (query.kind === "FunnelsQuery" && query.series.length < 2) {
    return "A funnel needs a second step. Add one to see how many go on to it.";
  }
  if ("series" in query && query.series.length === 0) return "Add a series to see a chart.";
  if (query.kind === "TrendsQuery") {
    for (const node of query.series) {
      const needs = /^(sum|avg|min|max|median|p\d\d)$/.test(node.math ?? "");
      if (needs && !node.math_property) return "Choose the property that the series adds up.";
      if (node.math === "hogql" && !node.math_hogql?.trim()) {
        return "Write the SQL expression that the series computes.";
      }
    }
  }
  return null;
}
