import type { Schemas } from "@/api/client";

type BoxPlot = Schemas["BoxPlot"];

const NUMBERS = ["min", "p25", "median", "p75", "max", "mean"] as const;

/// The numbers of box plots as lines over time, one for each number of a series.
export function boxPlotLines(boxes: readonly BoxPlot[]): Schemas["TrendsSeries"][] {
  const bySeries = new Map<number, BoxPlot[]>();
  for (const box of boxes) {
    bySeries.set(box.series_index, [...(bySeries.get(box.series_index) ?? []), box]);
  }
  return [...bySeries].flatMap(([order, own]) =>
    NUMBERS.map((number) => ({
      label: `${own[0]?.series_label ?? ""} - ${number}`,
      breakdown_value: number,
      data: own.map((box) => box[number]),
      days: own.map(({ day }) => day),
      labels: own.map(({ label }) => label),
      action: { order, type: "events", name: own[0]?.series_label ?? "" },
      filter: { insight: "TRENDS", interval: "", date_from: "", date_to: "" },
    })),
  );
}
