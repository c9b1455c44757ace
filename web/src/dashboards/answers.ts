import type { Schemas } from "@/api/client";
import { type Answer, eventsOf as eventsOfSource, insightSource } from "@/insights/queries";
import { reachesNow } from "./filters";

/// Later than any event: the range of the result is still open.
const OPEN_END = "9999-12-31T00:00:00Z";

/// The events that a query counts, for live updates; null if it may count any.
export function eventsOf(query: unknown): string[] | null {
  const source = insightSource(query);
  return source && eventsOfSource(source);
}

/// A stored insight's result in the form of the query endpoint's answer. `query` is the insight's with
/// all filters on top.
export function storedAnswer(
  insight: Pick<Schemas["Insight"], "result" | "columns" | "types" | "timezone" | "last_refresh">,
  query: unknown,
): Answer {
  const source = insightSource(query);
  const range = source && "dateRange" in source ? source.dateRange : null;
  return {
    // Which of the results it is follows from the query.
    results: insight.result as Answer["results"],
    columns: insight.columns ?? undefined,
    types: insight.types ?? undefined,
    timezone: insight.timezone ?? undefined,
    last_refresh: insight.last_refresh ?? undefined,
    resolved_date_range: reachesNow(range?.date_to) ? { date_from: "", date_to: OPEN_END } : null,
  };
}
