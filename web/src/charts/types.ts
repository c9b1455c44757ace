/// The rows and columns behind a chart: its table twin and its CSV.
export interface ChartData {
  columns: string[];
  /// The first cell of a row is its name. Numbers are exact, null is "no value".
  rows: (string | number | null)[][];
}

export type ChartView = "chart" | "table";

/// What every chart takes.
export interface ChartProps {
  /// The name of the chart, for people who do not see it and for exports.
  label: string;
  view?: ChartView;
  /// Formats a value exactly, in tooltips and tables; `exact` by default.
  format?: (value: number) => string;
  className?: string;
}
