/// Charts of SQL queries: which columns they draw, and how.

import type { Interval } from "@/ui/format";
import type { Answer } from "./queries";
import type { ResultModel, TimeKind } from "./results";
import { zonedTime } from "./zones";

/// The names are those of PostHog's displays, so that its insights are drawn as well.
export const SQL_DISPLAYS = [
  { value: "ActionsTable", label: "Table" },
  { value: "ActionsLineGraph", label: "Lines" },
  { value: "ActionsAreaGraph", label: "Stacked areas" },
  { value: "ActionsBar", label: "Stacked bars" },
  { value: "ActionsBarValue", label: "Horizontal bars" },
  { value: "ActionsPie", label: "Pie" },
  { value: "BoldNumber", label: "Number" },
] as const;

export type SqlDisplay = (typeof SQL_DISPLAYS)[number]["value"];

export interface SqlChart {
  display: SqlDisplay;
  /// The column of the axis; null for the first that fits.
  x: string | null;
  /// The columns that are drawn; empty for all numbers.
  y: readonly string[];
  /// The column that splits the values into series.
  series: string | null;
}

export const SQL_TABLE: SqlChart = { display: "ActionsTable", x: null, y: [], series: null };

function record(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function column(value: unknown): string | null {
  const name = record(value)?.column;
  return typeof name === "string" && name !== "" ? name : null;
}

/// The chart of a stored query: of a `DataVisualizationNode`; a table for anything else.
export function sqlChartOf(query: unknown): SqlChart {
  const node = record(query);
  if (node?.kind !== "DataVisualizationNode") return SQL_TABLE;
  const display = SQL_DISPLAYS.find(({ value }) => value === node.display)?.value;
  if (!display) return SQL_TABLE;
  const settings = record(node.chartSettings) ?? {};
  const y = Array.isArray(settings.yAxis) ? settings.yAxis : [];
  const series = settings.seriesBreakdownColumn;
  return {
    display,
    x: column(settings.xAxis),
    y: y.flatMap((axis) => column(axis) ?? []),
    series: typeof series === "string" && series !== "" ? series : null,
  };
}

/// The settings in the stored form.
export function chartSettings({ x, y, series }: SqlChart): object {
  return {
    ...(x === null ? {} : { xAxis: { column: x } }),
    yAxis: y.map((name) => ({ column: name })),
    ...(series === null ? {} : { seriesBreakdownColumn: series }),
  };
}

export interface ColumnShape {
  name: string;
  kind: "number" | "time" | "text";
}

const TIME = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)/;
const KINDS_FROM_ROWS = 100;

/// What the columns of an answer hold, by their types and values.
export function columnShapes(answer: Answer): ColumnShape[] {
  const rows = (Array.isArray(answer.results) ? answer.results : []) as unknown[][];
  const types = answer.types ?? [];
  return (answer.columns ?? []).map((name, at) => {
    const type = types[at];
    const declared = Array.isArray(type) ? type[1] : type;
    if (declared && /Date/.test(declared)) return { name, kind: "time" };
    const values = rows.slice(0, KINDS_FROM_ROWS).map((row) => row[at] ?? null);
    const given = values.filter((value) => value !== null);
    if (given.length > 0 && given.every((value) => typeof value === "number")) {
      return { name, kind: "number" };
    }
    const isTime = (value: unknown) => typeof value === "string" && TIME.test(value);
    return { name, kind: given.length > 0 && given.every(isTime) ? "time" : "text" };
  });
}

/// The chart that suits an answer best.
export function suggestedChart(answer: Answer): SqlChart {
  const shapes = columnShapes(answer);
  const rows = Array.isArray(answer.results) ? answer.results.length : 0;
  const has = (kind: ColumnShape["kind"]) => shapes.some((shape) => shape.kind === kind);
  if (!has("number")) return SQL_TABLE;
  if (has("time")) {
    const split = shapes.find(({ kind }) => kind === "text")?.name ?? null;
    return { ...SQL_TABLE, display: "ActionsLineGraph", series: split };
  }
  if (rows === 1 && shapes.length === 1) return { ...SQL_TABLE, display: "BoldNumber" };
  return { ...SQL_TABLE, display: "ActionsBarValue" };
}

interface Columns {
  x: number;
  y: number[];
  series: number;
}

/// The positions of the columns that a chart draws; null where the answer lacks them.
function columnsOf(chart: SqlChart, shapes: readonly ColumnShape[]): Columns | null {
  const at = (name: string | null) => shapes.findIndex((shape) => shape.name === name);
  const series = at(chart.series);
  const chosen = chart.y.map(at).filter((position) => position >= 0);
  const x =
    at(chart.x) >= 0
      ? at(chart.x)
      : Math.max(
          shapes.findIndex(({ kind }) => kind === "time"),
          shapes.some(({ kind }) => kind === "time")
            ? -1
            : shapes.findIndex(({ kind }, position) => kind === "text" && position !== series),
        );
  const numbers = shapes.flatMap(({ kind }, position) =>
    kind === "number" && position !== x && position !== series ? [position] : [],
  );
  const y = chosen.length > 0 ? chosen : numbers;
  return y.length > 0 ? { x, y, series } : null;
}

/// More series than these cannot be told apart.
export const SERIES_MAX = 25;
const DAY_MS = 86_400_000;

function intervalOf(times: readonly number[]): Interval {
  let gap = Number.POSITIVE_INFINITY;
  for (let at = 1; at < times.length; at++) {
    gap = Math.min(gap, (times[at] ?? 0) - (times[at - 1] ?? 0));
  }
  if (gap >= 28 * DAY_MS) return times.length > 1 ? "month" : "day";
  if (gap >= 7 * DAY_MS) return "week";
  // A day of a change of clocks has 23 hours.
  if (gap >= DAY_MS - 3_600_000) return "day";
  return gap >= 3_600_000 ? "hour" : "minute";
}

function text(value: unknown): string {
  if (value === null || value === undefined || value === "") return "(not set)";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

interface Lines {
  points: unknown[];
  series: { id: string; label: string; values: (number | null)[] }[];
}

/// One value a point of the axis and series; of several rows for one, the last counts.
function lines(rows: readonly unknown[][], columns: Columns, names: readonly string[]): Lines {
  const points = new Map<string, { at: number; value: unknown }>();
  for (const [index, row] of rows.entries()) {
    const value = columns.x < 0 ? index + 1 : row[columns.x];
    const key = text(value);
    if (!points.has(key)) points.set(key, { at: points.size, value });
  }
  const series = new Map<string, (number | null)[]>();
  for (const [index, row] of rows.entries()) {
    const at = points.get(text(columns.x < 0 ? index + 1 : row[columns.x]))?.at ?? 0;
    for (const y of columns.y) {
      const part = columns.series < 0 ? null : text(row[columns.series]);
      const name = names[y] ?? "";
      const id = part === null ? name : columns.y.length > 1 ? `${part} · ${name}` : part;
      let values = series.get(id);
      if (!values) {
        if (series.size >= SERIES_MAX) continue;
        values = Array.from({ length: points.size }, () => null);
        series.set(id, values);
      }
      values[at] = number(row[y]);
    }
  }
  return {
    points: [...points.values()].map(({ value }) => value),
    series: [...series].map(([id, values]) => ({ id, label: id, values })),
  };
}

const TIME_KINDS: Partial<Record<SqlDisplay, TimeKind>> = {
  ActionsLineGraph: "line",
  ActionsAreaGraph: "area",
  ActionsBar: "bar",
};

/// The answer as a chart draws it; null for a table.
export function sqlChartModel(
  chart: SqlChart,
  answer: Answer,
  timeZone: string,
): ResultModel | null {
  if (chart.display === "ActionsTable") return null;
  const rows = (Array.isArray(answer.results) ? answer.results : []) as unknown[][];
  if (rows.length === 0) return { type: "empty" };
  const shapes = columnShapes(answer);
  const columns = columnsOf(chart, shapes);
  if (!columns) return null;
  const names = shapes.map(({ name }) => name);
  const first = columns.y[0] ?? 0;
  if (chart.display === "BoldNumber") {
    const label = names[first] ?? "";
    return { type: "number", value: number(rows[0]?.[first]), label, id: label };
  }
  const { points, series } = lines(rows, columns, names);
  const kind = TIME_KINDS[chart.display];
  if (!kind) {
    const values = series[0]?.values ?? [];
    return {
      type: "bars",
      look: chart.display === "ActionsPie" ? "pie" : "bars",
      items: points.map((point, at) => ({
        id: String(at),
        label: text(point),
        value: values[at] ?? 0,
      })),
    };
  }
  if (columns.x < 0 || shapes[columns.x]?.kind !== "time") {
    return { type: "categories", labels: points.map(text), series };
  }
  // A chart over time goes from left to right, whatever the order of the rows.
  const order = points
    .map((point, at) => ({ at, time: zonedTime(String(point), timeZone) }))
    .filter(({ time }) => !Number.isNaN(time))
    .sort((a, b) => a.time - b.time);
  if (order.length === 0) return null;
  const times = order.map(({ time }) => time);
  return {
    type: "time",
    kind,
    times,
    interval: intervalOf(times),
    series: series.map((one) => ({
      ...one,
      values: order.map(({ at }) => one.values[at] ?? null),
    })),
    percent: false,
    goals: [],
  };
}
