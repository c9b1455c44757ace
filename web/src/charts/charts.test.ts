import { describe, expect, it } from "vitest";
import { barTable } from "./BarChart";
import { fileName, toCsv } from "./export";
import { funnelTable } from "./FunnelChart";
import { longHex, mix, seriesColor, withAlpha } from "./palette";
import { labelSteps, splitUnfinished, stack, valueRange } from "./stacking";
import { timeSummary } from "./summary";

describe("stacking", () => {
  it("adds up what is above and below zero apart", () => {
    expect(
      stack([
        [1, 2, null],
        [3, -1, 5],
        [1, -2, 1],
      ]),
    ).toEqual([
      [1, 2, 0],
      [4, -1, 5],
      [5, -3, 6],
    ]);
  });

  it("of nothing is nothing", () => {
    expect(stack([])).toEqual([]);
  });

  it("splits a line where its intervals are unfinished, with the point where the parts meet", () => {
    expect(splitUnfinished([1, 2, 3], 2)).toEqual([
      [1, 2, null],
      [null, 2, 3],
    ]);
    expect(splitUnfinished([1, 2], undefined)).toEqual([[1, 2], []]);
    expect(splitUnfinished([1], 0)).toEqual([[null], [1]]);
  });

  it("shows as many labels as fit", () => {
    expect(labelSteps(10, 4)).toEqual([0, 3, 6, 9]);
    expect(labelSteps(3, 20)).toEqual([0, 1, 2]);
    expect(labelSteps(5, 0)).toEqual([0]);
    expect(labelSteps(0, 5)).toEqual([]);
  });

  it("begins the value axis at zero and leaves room above", () => {
    expect(valueRange([])).toEqual([0, 1]);
    expect(valueRange([50, 100])).toEqual([0, 108]);
    expect(valueRange([-100])).toEqual([-108, 0]);
  });
});

describe("colours", () => {
  it("repeat after ten", () => {
    expect(seriesColor(0)).toBe("var(--chart-1)");
    expect(seriesColor(10)).toBe("var(--chart-1)");
  });

  it("mix and fade", () => {
    expect(mix("#000000", "#ffffff", 0.5)).toBe("#808080");
    expect(withAlpha("#102030", 0.5)).toBe("#10203080");
    expect(longHex("#fa0")).toBe("#ffaa00");
    expect(longHex("#102030")).toBe("#102030");
  });
});

describe("exports", () => {
  it("quote as RFC 4180 wants, and run no formula", () => {
    expect(
      toCsv({
        columns: ["Name", "Value"],
        rows: [
          ['a "b", c', 1.5],
          ["=1+1", null],
        ],
      }),
    ).toBe('Name,Value\r\n"a ""b"", c",1.5\r\n\'=1+1,\r\n');
  });

  it("keep negative numbers as numbers", () => {
    expect(toCsv({ columns: ["x"], rows: [[-3]] })).toBe("x\r\n-3\r\n");
  });

  it("name files as every system allows", () => {
    expect(fileName("Sign-ups / week: “new”", "csv")).toBe("sign-ups-week-new.csv");
    expect(fileName("…", "png")).toBe("chart.png");
  });
});

describe("table twins", () => {
  it("say a funnel's shares of the first step and of the one before", () => {
    const steps = [
      { label: "Visit", count: 100 },
      { label: "Buy", count: 25, medianSeconds: 90 },
    ];
    expect(funnelTable({ series: [{ id: "all", label: "", steps }] }).rows).toEqual([
      ["1. Visit", 100, "100%", "100%", null],
      ["2. Buy", 25, "25%", "25%", "1 min 30 s"],
    ]);
  });

  it("show the range before only where there is one", () => {
    expect(barTable({ items: [{ id: "a", label: "A", value: 1 }] }).columns).toHaveLength(2);
    expect(barTable({ items: [{ id: "a", label: "A", value: 1, compare: 2 }] }).rows).toEqual([
      ["A", 1, 2],
    ]);
  });

  it("summarize a time chart in a sentence", () => {
    const series = [{ label: "Sign-ups", values: [1, 9, 3] }];
    expect(timeSummary(series, ["Mon", "Tue", "Wed"], String)).toBe(
      "1 series from Mon to Wed. Sign-ups is highest at Tue with 9 and ends at 3.",
    );
    expect(timeSummary([], [], String)).toBe("No values.");
  });
});
