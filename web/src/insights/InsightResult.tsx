import { lazy, Suspense, useMemo } from "react";
import { BarChart } from "@/charts/BarChart";
import { ChartTable } from "@/charts/ChartTable";
import { HistogramChart } from "@/charts/HistogramChart";
import { Legend } from "@/charts/Legend";
import { NumberChart } from "@/charts/NumberChart";
import { TimeChart, type TimeMarker } from "@/charts/TimeChart";
import type { ChartView } from "@/charts/types";
import { EmptyState, Skeleton } from "@/ui";
import { cx } from "@/ui/cx";
import { CategoryChart } from "./CategoryChart";
import type { PointRef } from "./points";
import type { Answer, InsightQuery, SeriesResult, SqlQuery } from "./queries";
import { resultModel } from "./results";
import { sqlChartOf } from "./sqlChart";
import { PERCENT, PLAIN, valueFormat } from "./valueFormat";

// Charts that only some insights need.
const FunnelChart = lazy(async () => ({
  default: (await import("@/charts/FunnelChart")).FunnelChart,
}));
const PathsChart = lazy(async () => ({
  default: (await import("@/charts/PathsChart")).PathsChart,
}));
const PieChart = lazy(async () => ({ default: (await import("@/charts/PieChart")).PieChart }));
const RetentionGrid = lazy(async () => ({
  default: (await import("@/charts/RetentionGrid")).RetentionGrid,
}));

export interface InsightResultProps {
  /// The query as it was sent, without wrappers (`insightSource` takes them off).
  query: InsightQuery | SqlQuery;
  /// What the query endpoint answered; of a stored insight, `{ results: insight.result, … }`.
  answer: Answer;
  /// The query as it is stored: its wrapper says how the rows of SQL are drawn. A table without it.
  stored?: unknown;
  /// The name of the chart.
  label: string;
  /// The project's zone.
  timeZone: string;
  view?: ChartView;
  /// Without axes, legend and clicks, for lists.
  thumbnail?: boolean;
  /// Flag changes and annotations, on time charts.
  markers?: readonly TimeMarker[];
  /// Opens the persons behind a point: `pointOf` names it.
  onOpen?: (point: PointRef) => void;
  /// A range that was dragged, from the start of its first to the start of its last interval.
  onSelectRange?: (from: number, to: number) => void;
  hiddenIds?: ReadonlySet<string>;
  onToggleSeries?: (id: string) => void;
  /// Fills its parent, which has a height.
  className?: string;
}

const NONE: ReadonlySet<string> = new Set();
const LEGEND_MAX = 30;
/// What a small chart has room for.
const THUMBNAIL_BARS = 3;

/// The result of any insight: its chart with legend, or its table.
export function InsightResult(props: InsightResultProps) {
  return (
    <Suspense fallback={<Skeleton className={cx("h-full", !props.thumbnail && "min-h-40")} />}>
      <Result {...props} />
    </Suspense>
  );
}

function Result({
  query,
  answer,
  stored,
  label,
  timeZone,
  view = "chart",
  thumbnail = false,
  markers,
  onOpen,
  onSelectRange,
  hiddenIds = NONE,
  onToggleSeries,
  className,
}: InsightResultProps) {
  const model = useMemo(
    () => resultModel(query, answer, { timeZone, chart: sqlChartOf(stored) }),
    [query, answer, timeZone, stored],
  );
  const unit = useMemo(
    () => (query.kind === "TrendsQuery" ? valueFormat(query.trendsFilter) : PLAIN),
    [query],
  );
  const frame = cx("min-h-0 min-w-0", className);
  const results = Array.isArray(answer.results) ? answer.results : [];
  const shared = { label, view, className: "h-full" };

  switch (model.type) {
    case "empty":
      return thumbnail ? (
        <p className={cx("grid place-items-center text-xs text-muted", className)}>No values</p>
      ) : (
        <EmptyState title="Nothing matches" className={className}>
          {query.kind === "PathsQuery"
            ? "No two events of a person follow one another in this range. Choose a longer range or other events."
            : "No event in this range passes the filters. Choose a longer range, or take a filter away."}
        </EmptyState>
      );
    case "time": {
      const open =
        onOpen &&
        ((series: { id: string }, index: number) => {
          const item =
            query.kind === "LifecycleQuery"
              ? (results as SeriesResult[]).findIndex(({ status }) => status === series.id)
              : model.series.findIndex(({ id }) => id === series.id);
          const day = (results[item] as SeriesResult | undefined)?.days?.[index];
          if (day !== undefined) onOpen({ item, at: String(day) });
        });
      const legend = !thumbnail && view === "chart" && model.series.length > 1;
      return (
        <div className={cx(frame, "flex flex-col")}>
          <TimeChart
            {...shared}
            className="min-h-0 flex-1"
            kind={model.kind}
            times={model.times}
            interval={model.interval}
            timeZone={timeZone}
            series={model.series}
            unfinishedFrom={model.unfinishedFrom}
            goals={thumbnail ? undefined : model.goals}
            markers={thumbnail ? undefined : markers}
            hiddenIds={hiddenIds}
            format={model.percent ? PERCENT.exact : unit.exact}
            axisFormat={model.percent ? PERCENT.short : unit.short}
            onOpenPoint={thumbnail ? undefined : open}
            onSelectRange={thumbnail ? undefined : onSelectRange}
            thumbnail={thumbnail}
          />
          {legend && (
            <Legend
              className="scroll-thin mt-1 max-h-20 shrink-0 overflow-y-auto"
              series={model.series.slice(0, LEGEND_MAX)}
              hiddenIds={hiddenIds}
              onToggle={onToggleSeries}
            />
          )}
        </div>
      );
    }
    case "number":
      return (
        <NumberChart
          {...shared}
          className={frame}
          format={unit.exact}
          value={model.value}
          compare={model.compare}
          onOpen={thumbnail ? undefined : onOpen && (() => onOpen({ item: 0, at: "" }))}
        />
      );
    case "bars": {
      const open =
        onOpen &&
        !thumbnail &&
        ((bar: { id: string }) =>
          onOpen({ item: model.items.findIndex(({ id }) => id === bar.id), at: "" }));
      if (thumbnail) {
        const items = model.items.slice(0, THUMBNAIL_BARS);
        return <BarChart {...shared} className={frame} format={unit.exact} items={items} dense />;
      }
      if (model.look === "pie") {
        return (
          <PieChart
            {...shared}
            className={frame}
            format={unit.exact}
            items={model.items}
            onOpen={open || undefined}
          />
        );
      }
      return (
        <BarChart
          {...shared}
          view={model.look === "table" ? "table" : view}
          className={frame}
          format={unit.exact}
          items={model.items}
          onOpen={open || undefined}
        />
      );
    }
    case "funnel": {
      if (thumbnail) {
        return (
          <CategoryChart
            {...shared}
            className={frame}
            labels={(model.series[0]?.steps ?? []).map((step, at) => `${at + 1} ${step.label}`)}
            series={model.series.map(({ id, label: name, steps, color }) => ({
              id,
              label: name,
              color,
              values: steps.map(({ count }) => count),
            }))}
            thumbnail
          />
        );
      }
      return (
        <FunnelChart
          {...shared}
          className={frame}
          series={model.series}
          noun={
            query.kind === "FunnelsQuery" && (query.aggregation_group_type_index ?? null) !== null
              ? "group"
              : "person"
          }
          onOpen={
            thumbnail
              ? undefined
              : onOpen &&
                ((series, step, outcome) =>
                  onOpen({
                    item: Number(series.id),
                    at: String(outcome === "dropped" ? -(step + 1) : step + 1),
                  }))
          }
        />
      );
    }
    case "histogram":
      return (
        <div className={cx(frame, "flex flex-col")}>
          {!thumbnail && <p className="px-2 pb-2 text-muted">{model.note}</p>}
          <HistogramChart
            {...shared}
            className="min-h-0 flex-1"
            bins={model.bins}
            binLabel="Time to convert"
          />
        </div>
      );
    case "retention":
      return (
        <RetentionGrid
          {...shared}
          className={frame}
          cohorts={model.cohorts}
          thumbnail={thumbnail}
          period={model.period}
          headings={model.headings}
          onOpen={
            thumbnail
              ? undefined
              : onOpen &&
                ((cohort, period) => onOpen({ item: Number(cohort.id), at: String(period) }))
          }
        />
      );
    case "categories": {
      const legend = !thumbnail && view === "chart" && model.series.length > 1;
      return (
        <div className={cx(frame, "flex flex-col")}>
          <CategoryChart
            {...shared}
            className="min-h-0 flex-1"
            labels={model.labels}
            series={model.series}
            hiddenIds={hiddenIds}
            thumbnail={thumbnail}
            onOpenPoint={
              thumbnail || query.kind === "FunnelsQuery"
                ? undefined
                : onOpen &&
                  ((series, index) =>
                    onOpen({
                      item: model.series.findIndex(({ id }) => id === series.id),
                      at: String(index + 1),
                    }))
            }
          />
          {legend && (
            <Legend
              className="mt-1 shrink-0"
              series={model.series}
              hiddenIds={hiddenIds}
              onToggle={onToggleSeries}
            />
          )}
        </div>
      );
    }
    case "paths":
      return (
        <PathsChart
          {...shared}
          className={frame}
          links={model.links}
          thumbnail={thumbnail}
          onOpenLink={
            thumbnail
              ? undefined
              : onOpen && (({ source, target }) => onOpen({ item: 0, at: `${source}>${target}` }))
          }
          onOpenNode={
            thumbnail
              ? undefined
              : onOpen &&
                ((node) => onOpen({ item: 0, at: node.startsWith("1_") ? `${node}>` : `>${node}` }))
          }
        />
      );
    case "rows":
      return <ChartTable label={label} data={model.data} className={frame} />;
  }
}
