import { describe, expect, it } from "vitest";
import { resultModel } from "./results";
import { chartSettings, SQL_TABLE, type SqlChart, sqlChartOf, suggestedChart } from "./sqlChart";

const chart = (changes: Partial<SqlChart>): SqlChart => ({ ...SQL_TABLE, ...changes });
const daily = {
  columns: ["day", "plan", "n"],
  types: [
    ["day", "DateTime"],
    ["plan", "Nullable(String)"],
    ["n", "UInt64"],
  ] as [string, string][],
  results: [
    ["2026-03-02T00:00:00Z", "pro", 4],
    ["2026-03-01T00:00:00Z", "pro", 2],
    ["2026-03-01T00:00:00Z", null, 1],
  ],
};
const model = (changes: Partial<SqlChart>, answer: object = daily) =>
  resultModel({ kind: "HogQLQuery", query: "" }, answer as typeof daily, {
    timeZone: "UTC",
    chart: chart(changes),
  });

describe("a chart of SQL", () => {
  it("draws time from left to right, with a series for each part", () => {
    expect(model({ display: "ActionsLineGraph", series: "plan" })).toMatchObject({
      type: "time",
      kind: "line",
      interval: "day",
      times: [Date.parse("2026-03-01"), Date.parse("2026-03-02")],
      series: [
        { label: "pro", values: [2, 4] },
        { label: "(not set)", values: [1, null] },
      ],
    });
  });

  it("draws other columns as bars, categories or a number", () => {
    const answer = {
      columns: ["plan", "n", "share"],
      results: [
        ["pro", 4, 0.8],
        ["free", 1, 0.2],
      ],
    };
    expect(suggestedChart(answer as never).display).toBe("ActionsBarValue");
    expect(model({ display: "ActionsPie", y: ["share"] }, answer)).toMatchObject({
      type: "bars",
      look: "pie",
      items: [
        { label: "pro", value: 0.8 },
        { label: "free", value: 0.2 },
      ],
    });
    expect(model({ display: "ActionsBar" }, answer)).toMatchObject({
      type: "categories",
      labels: ["pro", "free"],
      series: [{ label: "n" }, { label: "share" }],
    });
    expect(model({ display: "BoldNumber" }, answer)).toMatchObject({ type: "number", value: 4 });
  });

  it("is a table where there is nothing to draw", () => {
    expect(model({ display: "ActionsBar" }, { columns: ["a"], results: [["x"]] }).type).toBe(
      "rows",
    );
    expect(model({ display: "ActionsTable" }).type).toBe("rows");
  });

  it("is stored as PostHog stores it", () => {
    const own = chart({ display: "ActionsBar", x: "day", y: ["n"], series: "plan" });
    const node = { kind: "DataVisualizationNode", display: own.display };
    expect(sqlChartOf({ ...node, chartSettings: chartSettings(own) })).toEqual(own);
    expect(sqlChartOf({ ...node, display: "WorldMap" })).toEqual(SQL_TABLE);
    expect(sqlChartOf({ kind: "HogQLQuery" })).toEqual(SQL_TABLE);
  });
});
