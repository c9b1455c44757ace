import { useEffect, useMemo, useState } from "react";
import type { Schemas } from "@/api/client";
import { storedAnswer } from "@/dashboards/answers";
import { type Filters, withFilters } from "@/dashboards/filters";
import { InsightResult } from "@/insights/InsightResult";
import { insightSource } from "@/insights/queries";
import { sqlChartOf } from "@/insights/sqlChart";

export interface SharedInsightProps {
  label: string;
  insight: Schemas["Insight"];
  /// Of the dashboard and the tile.
  filters: readonly Filters[];
  /// Called for a kind that has no chart.
  onUnknown: () => void;
}

/// The chart of an insight on a page that asks the server for nothing, with its table twin.
export function SharedInsight({ label, insight, filters, onUnknown }: SharedInsightProps) {
  const [view, setView] = useState<"chart" | "table">("chart");
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const query = useMemo(() => withFilters(insight.query, filters), [insight.query, filters]);
  const source = useMemo(() => insightSource(query), [query]);
  const answer = useMemo(() => storedAnswer(insight, query), [insight, query]);
  useEffect(() => {
    if (!source) onUnknown();
  }, [source, onUnknown]);
  if (!source) return null;
  const toggle = (id: string) => {
    const next = new Set(hidden);
    if (!next.delete(id)) next.add(id);
    setHidden(next);
  };
  return (
    <>
      {(source.kind !== "HogQLQuery" || sqlChartOf(query).display !== "ActionsTable") && (
        <button
          type="button"
          className="view-toggle"
          aria-label={view === "chart" ? `Show ${label} as a table` : `Show ${label} as a chart`}
          onClick={() => setView(view === "chart" ? "table" : "chart")}
        >
          {view === "chart" ? "Table" : "Chart"}
        </button>
      )}
      <InsightResult
        className="min-h-0 flex-1"
        label={label}
        query={source}
        stored={query}
        answer={answer}
        timeZone={insight.timezone ?? "UTC"}
        view={view}
        hiddenIds={hidden}
        onToggleSeries={toggle}
      />
    </>
  );
}
