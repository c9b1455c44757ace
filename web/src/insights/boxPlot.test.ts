import { expect, test } from "vitest";
import { boxPlotLines } from "./boxPlot";

test("the numbers of box plots are lines, one for each number of a series", () => {
  const box = (day: string, series: number, median: number) => ({
    day,
    label: day,
    min: 1,
    p25: 2,
    median,
    p75: 8,
    max: 9,
    mean: 5,
    series_index: series,
    series_label: `event ${series}`,
  });
  const lines = boxPlotLines([
    box("2024-01-01", 0, 4),
    box("2024-01-02", 0, 6),
    box("2024-01-01", 1, 7),
  ]);
  expect(lines).toHaveLength(12);
  const medians = lines.filter(({ breakdown_value: number }) => number === "median");
  expect(medians.map(({ data }) => data)).toEqual([[4, 6], [7]]);
  expect(medians[0]?.days).toEqual(["2024-01-01", "2024-01-02"]);
  expect(medians[1]?.label).toBe("event 1 - median");
});
