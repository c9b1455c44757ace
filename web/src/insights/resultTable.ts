import { barTable } from "@/charts/BarChart";
import { funnelTable } from "@/charts/FunnelChart";
import { pathsTable } from "@/charts/PathsChart";
import { retentionTable } from "@/charts/RetentionGrid";
import { timeTable } from "@/charts/TimeChart";
import type { ChartData } from "@/charts/types";
import { categoryTable } from "./CategoryChart";
import type { ResultModel } from "./results";

/// The rows behind a chart, for its table and its CSV.
export function resultTable(model: ResultModel, timeZone: string): ChartData {
  switch (model.type) {
    case "time":
      return timeTable({ ...model, timeZone });
    case "number":
      return {
        columns: ["", "Value"],
        rows: [
          [model.label, model.value],
          ...(model.compare === undefined ? [] : [["Before", model.compare]]),
        ],
      };
    case "bars":
      return barTable(model);
    case "funnel":
      return funnelTable(model);
    case "histogram":
      return {
        columns: ["Time to convert from", "Persons"],
        rows: model.bins.map(({ label, value }) => [label, value]),
      };
    case "retention":
      return retentionTable(model);
    case "categories":
      return categoryTable(model);
    case "paths":
      return pathsTable(model);
    case "rows":
      return model.data;
    case "empty":
      return { columns: [], rows: [] };
  }
}
