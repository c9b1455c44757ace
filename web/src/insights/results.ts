/// Answers of insights as data of charts.

import type { Schemas } from "@/api/client";
import type { BarItem } from "@/charts/BarChart";
import type { FunnelSeries } from "@/charts/FunnelChart";
import type { PathLink } from "@/charts/PathsChart";
import { seriesColor } from "@/charts/palette";
import type { RetentionCohort } from "@/charts/RetentionGrid";
import type { TimeSeries } from "@/charts/TimeChart";
import type { ChartData } from "@/charts/types";
import { duration, type Interval, intervalLabel } from "@/ui/format";
import { boxPlotLines } from "./boxPlot";
import { seriesTitle } from "./names";
import {
  type Answer,
  breakdownLabel,
  type FunnelStep,
  formulasOf,
  hasBreakdown,
  type InsightQuery,
  isTotal,
  type LifecycleStatus,
  resultsOf,
  type SeriesResult,
  type SqlQuery,
  type TrendsQuery,
} from "./queries";
import { type SqlChart, sqlChartModel } from "./sqlChart";
import { intervalTimes, zonedDate } from "./zones";

export type TimeKind = "line" | "area" | "bar";

export type ResultModel =
  | {
      type: "time";
      kind: TimeKind;
      times: number[];
      interval: Interval;
      series: TimeSeries[];
      unfinishedFrom?: number;
      percent: boolean;
      goals: { label: string; value: number }[];
    }
  | { type: "number"; value: number | null; compare?: number | null; label: string; id: string }
  | { type: "bars"; look: "bars" | "pie" | "table"; items: BarItem[] }
  | { type: "funnel"; series: FunnelSeries[] }
  | { type: "histogram"; bins: { label: string; from: string; value: number }[]; note: string }
  | { type: "retention"; cohorts: RetentionCohort[]; period: string; headings: string[] }
  | { type: "categories"; labels: string[]; series: TimeSeries[] }
  | { type: "paths"; links: PathLink[] }
  | { type: "rows"; data: ChartData }
  | { type: "empty" };

export interface ModelOptions {
  timeZone: string;
  /// How the rows of SQL are drawn; a table without it.
  chart?: SqlChart;
  now?: number;
}

export const LIFECYCLE: Record<LifecycleStatus, { label: string; color: string }> = {
  new: { label: "New", color: seriesColor(0) },
  returning: { label: "Returning", color: seriesColor(1) },
  resurrecting: { label: "Resurrecting", color: seriesColor(2) },
  dormant: { label: "Dormant", color: seriesColor(3) },
};

/// The interval that is under way, where the range reaches it.
function unfinished(answer: Answer, times: readonly number[], now: number): number | undefined {
  const end = answer.resolved_date_range?.date_to;
  if (!end || Date.parse(end) < now) return undefined;
  for (let at = times.length - 1; at >= 0; at--) {
    if ((times[at] ?? 0) <= now) return at;
  }
  return undefined;
}

function labelOf(query: TrendsQuery, item: SeriesResult, formula: boolean): string {
  const node = formula ? undefined : query.series[item.action?.order ?? 0];
  const name = node ? seriesTitle(node) : (item.label ?? "");
  if (item.breakdown_value === undefined) return name;
  const value = breakdownLabel(
    item.breakdown_value === "all" ? "All persons" : (cohortName(item) ?? item.breakdown_value),
  );
  const several = formula ? formulasOf(query).length > 1 : query.series.length > 1;
  return several ? `${name} · ${value}` : value;
}

/// A cohort's value is its id; its name is the end of the label.
function cohortName(item: SeriesResult): string | null {
  if (typeof item.breakdown_value !== "number" || !item.label) return null;
  const name = item.label.split(" - ").at(-1);
  return name && name !== String(item.breakdown_value) ? name : null;
}

/// A stable name of a result, for colours and hidden lines.
function idOf(item: SeriesResult, at: number, formula: boolean): string {
  const order = formula ? `f${item.label ?? at}` : String(item.action?.order ?? at);
  const value = item.breakdown_value === undefined ? "" : JSON.stringify(item.breakdown_value);
  return `${order}|${value}|${item.compare_label ?? ""}`;
}

function timeSeries(
  items: readonly SeriesResult[],
  label: (item: SeriesResult, at: number) => string,
  formula: boolean,
): TimeSeries[] {
  const positions = new Map<string, number>();
  return items.map((item, at) => {
    const compare = item.compare_label === "previous";
    const own = idOf({ ...item, compare_label: "current" }, at, formula);
    // The range before has the colour of the current one.
    const position = positions.get(own) ?? positions.size;
    positions.set(own, position);
    return {
      id: idOf(item, at, formula),
      label: compare ? `${label(item, at)}, previous` : label(item, at),
      values: item.data ?? [],
      compare,
      color: seriesColor(position),
    };
  });
}

const TIME_KINDS: Partial<Record<string, TimeKind>> = {
  ActionsAreaGraph: "area",
  ActionsBar: "bar",
  ActionsStackedBar: "bar",
  ActionsUnstackedBar: "bar",
  CalendarHeatmap: "bar",
};

function trends(
  query: TrendsQuery,
  answer: Answer,
  options: Required<Omit<ModelOptions, "chart">>,
): ResultModel {
  const isBoxPlot = query.trendsFilter?.display === "BoxPlot";
  const items = isBoxPlot
    ? boxPlotLines((answer.results ?? []) as unknown as Schemas["BoxPlot"][])
    : resultsOf(query, answer);
  if (items.length === 0) return { type: "empty" };
  const formula = formulasOf(query).length > 0;
  const display = query.trendsFilter?.display;
  const label = (item: SeriesResult) => labelOf(query, item, formula);
  if (isTotal(display)) {
    const series = timeSeries(items, label, formula);
    const current = items.filter(({ compare_label: side }) => side !== "previous");
    const previous = items.filter(({ compare_label: side }) => side === "previous");
    const before = (item: SeriesResult) => {
      const own = idOf({ ...item, compare_label: "previous" }, 0, formula);
      return previous.find((other) => idOf(other, 0, formula) === own)?.aggregated_value;
    };
    const first = current[0];
    if (display === "BoldNumber" && first && current.length === 1) {
      return {
        type: "number",
        id: series[0]?.id ?? "0",
        label: label(first),
        value: first.aggregated_value ?? null,
        compare: previous.length > 0 ? before(first) : undefined,
      };
    }
    const look = display === "ActionsPie" ? "pie" : display === "ActionsTable" ? "table" : "bars";
    return {
      type: "bars",
      look,
      items: current.map((item, at) => ({
        id: idOf(item, at, formula),
        label: display === "WorldMap" ? countryName(label(item)) : label(item),
        value: item.aggregated_value ?? 0,
        compare: previous.length > 0 ? (before(item) ?? 0) : undefined,
        color: series[items.indexOf(item)]?.color,
      })),
    };
  }
  const interval = query.interval ?? "day";
  const times = intervalTimes(items[0]?.days ?? [], interval, options.timeZone);
  return {
    type: "time",
    kind: (display && TIME_KINDS[display]) ?? "line",
    times,
    interval,
    series: timeSeries(items, label, formula),
    unfinishedFrom: unfinished(answer, times, options.now),
    percent: false,
    goals: query.trendsFilter?.goalLines ?? [],
  };
}

function countryName(code: string): string {
  if (!/^[A-Z]{2}$/.test(code)) return code;
  return new Intl.DisplayNames(undefined, { type: "region" }).of(code) ?? code;
}

export function funnelTrends(results: Schemas["FunnelsResult"]): Schemas["FunnelTrend"][] {
  return Array.isArray(results) ? results.filter((line) => "days" in line) : [];
}

/// The steps of each breakdown value, or of the only funnel; of compared periods those of the current
/// one first.
export function funnelSteps(results: Schemas["FunnelsResult"]): FunnelStep[][] {
  if (!Array.isArray(results)) return [];
  const broken = results.filter((steps) => Array.isArray(steps));
  if (broken.length > 0) return broken;
  const steps = results.filter((step) => "name" in step);
  const previous = steps.filter(({ compare_label: side }) => side === "previous");
  const current = steps.filter(({ compare_label: side }) => side !== "previous");
  return [current, previous].filter(({ length }) => length > 0);
}

export function sqlRows(rows: unknown[][], columns: string[] = []): ResultModel {
  const cell = (value: unknown): string | number | null =>
    value === null || value === undefined
      ? null
      : typeof value === "number" || typeof value === "string"
        ? value
        : typeof value === "object"
          ? JSON.stringify(value)
          : String(value);
  return {
    type: "rows",
    data: { columns, rows: rows.map((row) => row.map(cell)) },
  };
}

export function resultModel(
  query: InsightQuery | SqlQuery,
  answer: Answer,
  { timeZone, now = Date.now(), chart }: ModelOptions,
): ResultModel {
  const options = { timeZone, now };
  switch (query.kind) {
    case "HogQLQuery":
      return (
        (chart && sqlChartModel(chart, answer, timeZone)) ??
        sqlRows(resultsOf(query, answer), answer.columns)
      );
    case "TrendsQuery":
      return trends(query, answer, options);
    case "StickinessQuery": {
      const items = resultsOf(query, answer);
      if (items.length === 0) return { type: "empty" };
      const label = (item: SeriesResult) => {
        const node = query.series[item.action?.order ?? 0];
        return node ? seriesTitle(node) : (item.label ?? "");
      };
      return {
        type: "categories",
        labels: items[0]?.labels ?? [],
        series: timeSeries(items, label, false),
      };
    }
    case "LifecycleQuery": {
      const shown = query.lifecycleFilter?.toggledLifecycles;
      const items = resultsOf(query, answer).filter(
        ({ status }) => !shown || shown.includes(status),
      );
      if (items.length === 0) return { type: "empty" };
      const interval = query.interval ?? "day";
      const times = intervalTimes(items[0]?.days ?? [], interval, timeZone);
      return {
        type: "time",
        kind: "bar",
        times,
        interval,
        series: items.map(({ status, data }) => ({
          id: status,
          label: LIFECYCLE[status].label,
          color: LIFECYCLE[status].color,
          values: data,
        })),
        unfinishedFrom: unfinished(answer, times, now),
        percent: false,
        goals: [],
      };
    }
    case "FunnelsQuery": {
      const viz = query.funnelsFilter?.funnelVizType;
      if (viz === "time_to_convert") {
        const found = resultsOf(query, answer);
        // The last bin only closes the one before.
        const text = (seconds: number) => (seconds === 0 ? "0 s" : duration(seconds));
        if (Array.isArray(found)) return comparedTimes(found, text);
        const { average_conversion_time: average, median_conversion_time: median } = found;
        if (average === null || average === undefined) return { type: "empty" };
        const bins = found.bins.slice(0, -1).map(([from = 0, value = 0], at) => ({
          label: `${text(from)} – ${text(found.bins[at + 1]?.[0] ?? from)}`,
          from: text(from).split(" ").slice(0, 2).join(" "),
          value,
        }));
        const mean = `Average ${text(average)}`;
        const middle = median === null || median === undefined ? "" : `, median ${text(median)}`;
        return { type: "histogram", bins, note: `${mean}${middle}.` };
      }
      if (viz === "trends") {
        const items = funnelTrends(resultsOf(query, answer));
        if (items.length === 0) return { type: "empty" };
        const interval = query.interval ?? "day";
        const times = intervalTimes(items[0]?.days ?? [], interval, timeZone);
        const label = (item: SeriesResult) =>
          item.breakdown_value === undefined ? "Conversion" : breakdownLabel(item.breakdown_value);
        return {
          type: "time",
          kind: "line",
          times,
          interval,
          series: timeSeries(items, label, false),
          unfinishedFrom: unfinished(answer, times, now),
          percent: true,
          goals: query.funnelsFilter?.goalLines ?? [],
        };
      }
      const funnels = funnelSteps(resultsOf(query, answer));
      if (funnels.length === 0) return { type: "empty" };
      const unordered = query.funnelsFilter?.funnelOrderType === "unordered";
      const broken = hasBreakdown(query.breakdownFilter);
      const isPrevious = (steps: FunnelStep[]) => steps[0]?.compare_label === "previous";
      const compared = funnels.some(isPrevious);
      const values = funnels.filter((steps) => !isPrevious(steps)).length;
      const series = funnels.map((steps, at) => {
        const compare = isPrevious(steps);
        const value = broken ? breakdownLabel(steps[0]?.breakdown) : "";
        const side = compare ? "previous" : "current";
        return {
          id: String(at),
          label: !compared ? value : value ? `${value}, ${side}` : capitalized(side),
          compare,
          color: compared ? seriesColor(compare ? at - values : at) : undefined,
          steps: steps.map((step) => {
            const node = query.series[step.order];
            return {
              label: node && !unordered ? seriesTitle(node) : step.name,
              count: step.count,
              averageSeconds: step.average_conversion_time,
              medianSeconds: step.median_conversion_time,
              optional: node?.optionalInFunnel === true,
            };
          }),
        };
      });
      // Both periods of a value stand side by side.
      const pairs = series
        .slice(0, values)
        .flatMap((item, at) => [item, series[values + at]].filter((side) => side !== undefined));
      return { type: "funnel", series: compared ? pairs : series };
    }
    case "RetentionQuery": {
      const rows = resultsOf(query, answer);
      if (rows.length === 0) return { type: "empty" };
      const period = query.retentionFilter?.period ?? "Day";
      const interval = period.toLowerCase() as Interval;
      const starts = rows.map(({ date }) => Date.parse(date));
      const broken = hasBreakdown(query.breakdownFilter);
      // The grid needs its width for numbers: the year is written where there are two.
      const years = new Set(rows.map(({ date }) => date.slice(0, 4)));
      const style = years.size > 1 ? "long" : "short";
      const columns = retentionColumns(query.retentionFilter, rows[0]?.values.length ?? 0);
      // An actor that starts at the end of a period has windows that end a period later.
      const late = query.retentionFilter?.timeWindowMode === "24_hour_windows" ? 1 : 0;
      const hasAmounts = (query.retentionFilter?.aggregationType ?? "count") !== "count";
      return {
        type: "retention",
        period,
        headings: rows[0]?.values.map(({ label }) => label) ?? [],
        cohorts: rows.map(({ values, breakdown_value }, at) => {
          const start = starts[at] ?? 0;
          const name = intervalLabel(new Date(start), interval, timeZone, style);
          // Values of periods that have not begun are zero in the answer.
          const begun = Math.max(1, periodsBetween(start, now, interval, timeZone) + 1);
          return {
            id: String(at),
            label: broken ? `${breakdownLabel(breakdown_value)} · ${name}` : name,
            values: values.map(({ count }, k) => ((columns[k]?.first ?? k) < begun ? count : null)),
            amounts: hasAmounts
              ? values.map(({ aggregation_value: amount }, k) =>
                  (columns[k]?.first ?? k) < begun ? (amount ?? 0) : null,
                )
              : undefined,
            unfinishedFrom: unfinishedColumn(columns, begun - 1 - late),
          };
        }),
      };
    }
    case "PathsQuery": {
      const edges = resultsOf(query, answer);
      if (edges.length === 0) return { type: "empty" };
      return {
        type: "paths",
        links: edges.map(({ source, target, value, average_conversion_time: ms }) => ({
          source,
          target,
          value,
          averageSeconds: (ms ?? 0) / 1_000,
        })),
      };
    }
  }
}

/// The first and last period after the start that each column counts.
function retentionColumns(
  filter: Schemas["RetentionFilter"] | undefined,
  length: number,
): { first: number; last: number }[] {
  const brackets = filter?.retentionCustomBrackets ?? [];
  if (brackets.length === 0) return Array.from({ length }, (_, at) => ({ first: at, last: at }));
  const columns = [{ first: 0, last: 0 }];
  for (const size of brackets) {
    const before = columns.at(-1)?.last ?? 0;
    columns.push({ first: before + 1, last: before + size });
  }
  return columns;
}

/// The first column with a period that is not over.
function unfinishedColumn(columns: readonly { last: number }[], underWay: number): number {
  const at = columns.findIndex(({ last }) => last >= underWay);
  return at < 0 ? columns.length : at;
}

function capitalized(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/// Histograms of two periods, side by side.
function comparedTimes(
  found: Schemas["FunnelsResult"] & unknown[],
  text: (seconds: number) => string,
): ResultModel {
  const times = (found as unknown[]).filter(
    (item): item is Schemas["FunnelTimes"] =>
      typeof item === "object" && item !== null && "bins" in item,
  );
  const bins = times[0]?.bins.slice(0, -1) ?? [];
  if (bins.length === 0) return { type: "empty" };
  return {
    type: "categories",
    labels: bins.map(([from = 0]) => text(from).split(" ").slice(0, 2).join(" ")),
    series: times.map(({ bins: own, compare_label: side }) => ({
      id: side ?? "current",
      label: capitalized(side ?? "current"),
      values: own.slice(0, -1).map(([, value = 0]) => value),
      compare: side === "previous",
      color: seriesColor(0),
    })),
  };
}

/// How many periods of a zone's calendar lie between two times.
function periodsBetween(from: number, to: number, interval: Interval, timeZone: string): number {
  if (interval === "hour") return Math.floor((to - from) / 3_600_000);
  const [a, b] = [zonedDate(from, timeZone), zonedDate(to, timeZone)];
  if (interval === "month") {
    const months = (date: string) => Number(date.slice(0, 4)) * 12 + Number(date.slice(5, 7));
    return months(b) - months(a);
  }
  const days = Math.round((Date.parse(b) - Date.parse(a)) / 86_400_000);
  return interval === "week" ? Math.floor(days / 7) : days;
}
