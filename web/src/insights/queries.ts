/// The queries of insights and their answers.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { type Query, runQuery, type Schemas } from "@/api/client";

export type Interval = Schemas["Interval"];
export type SeriesNode = Schemas["SeriesNode"];
export type BreakdownType = Schemas["BreakdownType"];
export type Breakdown = Schemas["Breakdown"];
export type BreakdownFilter = Schemas["BreakdownFilter"];
export type PathType = Schemas["PathsEventType"];
export type TrendsDisplay = Schemas["ChartDisplay"];
export type FormulaNode = Schemas["FormulaNode"];
export type RetentionEntity = Schemas["RetentionEntity"];
export type TrendsQuery = Schemas["TrendsQuery"];
export type FunnelsQuery = Schemas["FunnelsQuery"];
export type RetentionQuery = Schemas["RetentionQuery"];
export type LifecycleQuery = Schemas["LifecycleQuery"];
export type StickinessQuery = Schemas["StickinessQuery"];
export type PathsQuery = Schemas["PathsQuery"];
export type InsightQuery = Schemas["InsightQuery"];
/// An SQL query with its answer as rows.
export type SqlQuery = Schemas["HogQLQuery"];

export type InsightKind = InsightQuery["kind"];

export const KIND_LABELS: Record<InsightKind, string> = {
  TrendsQuery: "Trends",
  FunnelsQuery: "Funnel",
  RetentionQuery: "Retention",
  LifecycleQuery: "Lifecycle",
  StickinessQuery: "Stickiness",
  PathsQuery: "Paths",
};

const WRAPPERS = ["InsightVizNode", "DataTableNode", "DataVisualizationNode"];

function object(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

/// The query inside its wrappers; null for kinds that this interface does not draw.
export function insightSource(query: unknown): InsightQuery | SqlQuery | null {
  let node = object(query);
  for (let depth = 0; node && WRAPPERS.includes(String(node.kind)) && depth < 3; depth++) {
    node = object(node.source);
  }
  if (!node) return null;
  const kind = String(node.kind);
  if (kind === "HogQLQuery" && typeof node.query === "string") return node as unknown as SqlQuery;
  if (!(kind in KIND_LABELS)) return null;
  const needsSeries = !["RetentionQuery", "PathsQuery"].includes(kind);
  if (needsSeries && !Array.isArray(node.series)) return null;
  return node as unknown as InsightQuery;
}

/// The query of an insight that the builder edits.
export function editableQuery(query: unknown): InsightQuery | null {
  const source = insightSource(query);
  return source && source.kind !== "HogQLQuery" ? source : null;
}

/// The stored form of an insight's query, as PostHog's clients expect it.
export function vizNode(source: InsightQuery): Schemas["InsightVizNode"] {
  return { kind: "InsightVizNode", source };
}

export type LifecycleStatus = Schemas["LifecycleStatus"];
export type BreakdownValue = Schemas["BreakdownValue"];
export type FunnelStep = Schemas["FunnelStep"];

/// A value that may be of any type of the union: each of their keys, where it has it.
type AnyOf<Union> = {
  [Key in Union extends unknown ? keyof Union : never]?: Union extends unknown
    ? Key extends keyof Union
      ? Union[Key]
      : never
    : never;
};

/// One line of trends, stickiness, lifecycle or funnel trends.
export type SeriesResult = AnyOf<
  | Schemas["TrendsSeries"]
  | Schemas["StickinessSeries"]
  | Schemas["LifecycleSeries"]
  | Schemas["FunnelTrend"]
>;

/// The results of each kind of query.
interface Results {
  TrendsQuery: Schemas["TrendsSeries"][];
  FunnelsQuery: Schemas["FunnelsResult"];
  RetentionQuery: Schemas["RetentionRow"][];
  LifecycleQuery: Schemas["LifecycleSeries"][];
  StickinessQuery: Schemas["StickinessSeries"][];
  PathsQuery: Schemas["PathsEdge"][];
  HogQLQuery: unknown[][];
  EventsQuery: unknown[][];
  ActorsQuery: unknown[][];
}

/// What the query endpoint answers, or as much of it as is stored with an insight.
export type Answer<Kind extends keyof Results = keyof Results> = Partial<
  Omit<Schemas["QueryResponse"], "results">
> & { results: Results[Kind] | null | undefined };

/// The results of a query. An answer does not name their kind, so its query does.
export function resultsOf<Kind extends keyof Results>(
  query: { kind: Kind },
  { results }: Answer,
): Results[Kind] {
  const fits = Array.isArray(results) || (query.kind === "FunnelsQuery" && results);
  return (fits ? results : []) as Results[Kind];
}

export type Refresh = "blocking" | "force_blocking";

/// Runs a query; an abandoned one is cancelled on the server.
export async function ask<Kind extends keyof Results>(
  projectId: string,
  query: Query & { kind: Kind },
  options: { signal?: AbortSignal; refresh?: Refresh } = {},
): Promise<Schemas["QueryResponse"] & { results: Results[Kind] }> {
  const answer = await runQuery(projectId, query, options);
  return answer as Schemas["QueryResponse"] & { results: Results[Kind] };
}

/// An answer beside the query it belongs to: while a new one is under way, the previous pair is drawn.
export interface Answered {
  query: InsightQuery | SqlQuery;
  answer: Answer;
}

export function answerQuery(
  projectId: string,
  query: InsightQuery | SqlQuery,
  refresh: () => Refresh = () => "blocking",
) {
  return queryOptions({
    queryKey: ["insight_answer", projectId, query],
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }): Promise<Answered> => ({
      query,
      answer: await ask(projectId, query, { signal, refresh: refresh() }),
    }),
  });
}

export const NULL_VALUE = "$$_posthog_breakdown_null_$$";
export const OTHER_VALUE = "$$_posthog_breakdown_other_$$";

/// A breakdown value for people.
export function breakdownLabel(value: BreakdownValue | null | undefined): string {
  if (Array.isArray(value)) return value.map((part) => breakdownLabel(part)).join(" · ");
  if (value === null || value === undefined || value === "" || value === NULL_VALUE) {
    return "(not set)";
  }
  if (value === OTHER_VALUE) return "Other";
  // A visit without a referrer.
  if (value === "$direct") return "Direct";
  return String(value);
}

export function hasBreakdown(filter: BreakdownFilter | undefined): boolean {
  if (!filter) return false;
  if (filter.breakdowns && filter.breakdowns.length > 0) return true;
  const { breakdown } = filter;
  if (Array.isArray(breakdown)) return breakdown.length > 0;
  return breakdown !== undefined && breakdown !== null && breakdown !== "";
}

/// The events that a query reads; null for all, or where actions hide them.
export function eventsOf(query: InsightQuery | SqlQuery): string[] | null {
  const nodes: { event?: string | null; action: boolean }[] = [];
  switch (query.kind) {
    case "HogQLQuery":
    case "PathsQuery":
      return null;
    case "RetentionQuery":
      for (const entity of [
        query.retentionFilter?.targetEntity,
        query.retentionFilter?.returningEntity,
      ]) {
        const event = entity ? entity.id : "$pageview";
        nodes.push({
          event: typeof event === "string" ? event : null,
          action: entity?.type === "actions",
        });
      }
      break;
    default:
      for (const node of query.series) {
        nodes.push({ event: node.event, action: node.kind === "ActionsNode" });
      }
  }
  const names = new Set<string>();
  for (const { event, action } of nodes) {
    if (action || !event) return null;
    names.add(event);
  }
  return [...names];
}

/// Whether new events can change the answer.
export function reachesNow(query: InsightQuery | SqlQuery): boolean {
  return query.kind === "HogQLQuery" ? false : !query.dateRange?.date_to;
}

const TOTALS: readonly TrendsDisplay[] = [
  "BoldNumber",
  "ActionsBarValue",
  "ActionsPie",
  "ActionsTable",
  "WorldMap",
];

/// Whether a display shows one number for the whole range.
export function isTotal(display: TrendsDisplay | undefined): boolean {
  return display !== undefined && TOTALS.includes(display);
}

/// The formulas of a trend, whichever of the three keys has them.
export function formulasOf(query: TrendsQuery): FormulaNode[] {
  const filter = query.trendsFilter;
  if (filter?.formulaNodes && filter.formulaNodes.length > 0) return filter.formulaNodes;
  if (filter?.formulas && filter.formulas.length > 0) {
    return filter.formulas.map((formula) => ({ formula }));
  }
  return filter?.formula ? [{ formula: filter.formula }] : [];
}
