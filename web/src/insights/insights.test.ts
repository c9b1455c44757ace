import { describe, expect, it } from "vitest";
import { change, redo, startHistory, undo } from "@/shell/history";
import { readBreakdowns, writeBreakdowns } from "./builder/breakdowns";
import { comparedAt } from "./builder/withRange";
import { curlOf } from "./curl";
import { decodeDraft, encodeDraft, sameQuery } from "./draft";
import { convertQuery, newQuery, runnableQuery, whyNotRunnable } from "./kinds";
import { derivedName } from "./names";
import { pointOf, readPoint, writePoint } from "./points";
import {
  type Answer,
  eventsOf,
  type FunnelsQuery,
  type InsightKind,
  type InsightQuery,
  insightSource,
  KIND_LABELS,
  type RetentionQuery,
  type TrendsQuery,
} from "./queries";
import { resultModel } from "./results";
import { intervalTimes, zonedDate, zonedTime } from "./zones";

const KINDS = Object.keys(KIND_LABELS) as InsightKind[];

const TRENDS: TrendsQuery = {
  kind: "TrendsQuery",
  series: [
    {
      kind: "EventsNode",
      event: "signed up & paid #1",
      math: "dau",
      properties: [{ key: "naïve%25", type: "event", operator: "icontains", value: '50 % "off"' }],
    },
    { kind: "ActionsNode", id: 7, name: "Bought" },
  ],
  interval: "week",
  dateRange: { date_from: "2026-11-01", date_to: "2026-11-14" },
  properties: {
    type: "OR",
    values: [{ key: "plan", type: "person", operator: "exact", value: ["pro", "größer"] }],
  },
  trendsFilter: { formulaNodes: [{ formula: "A / B", custom_name: "Rate" }] },
};

describe("drafts", () => {
  it("survive the URL", () => {
    const queries: InsightQuery[] = [TRENDS, ...KINDS.map((kind) => convertQuery(TRENDS, kind))];
    for (const query of queries) {
      const fragment = encodeDraft(query);
      expect(fragment).not.toMatch(/[#\s"<>]/);
      const read = decodeDraft(`#${fragment}`);
      expect(read).toEqual(JSON.parse(JSON.stringify(query)));
      // As a browser gives it back after following the link.
      const url = new URL(`http://h/insights/new#${fragment}`);
      expect(decodeDraft(url.hash)).toEqual(read);
    }
  });

  it("read PostHog's links, also unencoded", () => {
    const wrapped = JSON.stringify({ kind: "InsightVizNode", source: TRENDS });
    expect(decodeDraft(`#q=${encodeURIComponent(wrapped)}`)).toEqual(TRENDS);
    const plain = JSON.stringify({ kind: "PathsQuery" });
    expect(decodeDraft(`#q=${plain}`)).toEqual({ kind: "PathsQuery" });
  });

  it("ignore what is no query", () => {
    for (const text of [
      "",
      "#x",
      "#q=",
      "#q=%",
      "#q={}",
      "#q=[1]",
      '#q={"kind":"Nope"}',
      '#q={"kind":"TrendsQuery"}',
      '#q={"kind":"HogQLQuery","query":"select 1"}',
      `#q=${"x".repeat(40_000)}`,
    ]) {
      expect(decodeDraft(text)).toBeNull();
    }
  });

  it("are equal where they mean the same", () => {
    expect(sameQuery(TRENDS, { ...TRENDS, compareFilter: undefined, breakdownFilter: {} })).toBe(
      true,
    );
    expect(sameQuery(TRENDS, { ...TRENDS, interval: "day" })).toBe(false);
  });

  it("undo and redo, typing as one step", () => {
    let history = startHistory(1);
    history = change(history, 2);
    history = change(history, 3, "typing");
    history = change(history, 4, "typing");
    expect(undo(history).present).toBe(2);
    expect(undo(undo(undo(history))).present).toBe(1);
    expect(redo(undo(history)).present).toBe(4);
    expect(redo(history)).toBe(history);
  });
});

it("compare the days since a change with as many before it", () => {
  const at = Date.parse("2026-10-28T23:30:00Z");
  const range = { date_from: "-7d", date_to: "2026-11-03" };
  const daily = comparedAt({ ...TRENDS, interval: "day", dateRange: range }, at, "Europe/Berlin");
  expect(daily).toMatchObject({
    interval: "day",
    dateRange: { date_from: "2026-10-29", date_to: "2026-11-03" },
    compareFilter: { compare: true },
  });
  const open: TrendsQuery = { ...TRENDS, interval: "day", dateRange: { date_from: "-30d" } };
  expect(comparedAt(open, at, "UTC").interval).toBe("day");
  const hourly = comparedAt({ ...TRENDS, interval: "hour", dateRange: range }, at, "UTC");
  expect(hourly.dateRange?.date_from).toContain("2026-10-28T23:30");
});

describe("kinds", () => {
  it("keep events, filters and range", () => {
    for (const kind of KINDS) {
      const query = convertQuery(TRENDS, kind);
      expect(query.kind).toBe(kind);
      expect(query.properties).toEqual(TRENDS.properties);
    }
    const there = convertQuery(TRENDS, "RetentionQuery") as RetentionQuery;
    expect(there.retentionFilter?.returningEntity).toMatchObject({ id: 7, type: "actions" });
    const back = convertQuery(there, "FunnelsQuery") as FunnelsQuery;
    expect(back.series.map(({ event, id }) => event ?? id)).toEqual(["signed up & paid #1", 7]);
  });

  it("send only what is complete", () => {
    const draft: TrendsQuery = {
      ...TRENDS,
      properties: [{ key: "plan", operator: "exact", value: [] }],
      trendsFilter: { formulaNodes: [{ formula: " " }] },
    };
    const sent = runnableQuery(draft) as TrendsQuery;
    expect(sent.properties).toBeUndefined();
    expect(sent.trendsFilter?.formulaNodes).toBeUndefined();
    expect(sent.series[1]).not.toHaveProperty("name");
    const funnel = convertQuery(newQuery("TrendsQuery", "a"), "FunnelsQuery");
    expect(whyNotRunnable(funnel)).toMatch(/second step/);
    expect(whyNotRunnable(TRENDS)).toBeNull();
  });

  it("say which events they read", () => {
    expect(eventsOf(newQuery("TrendsQuery", "a"))).toEqual(["a"]);
    expect(eventsOf(newQuery("TrendsQuery", null))).toBeNull();
    expect(eventsOf(TRENDS)).toBeNull();
    expect(eventsOf(newQuery("RetentionQuery", "a"))).toEqual(["a"]);
    expect(eventsOf(newQuery("PathsQuery", "a"))).toBeNull();
  });

  it("have names", () => {
    expect(derivedName({ ...TRENDS, trendsFilter: undefined })).toBe(
      "signed up & paid #1 (unique persons), Bought",
    );
    expect(derivedName(TRENDS)).toBe("Rate");
    expect(
      insightSource({ kind: "DataTableNode", source: { kind: "HogQLQuery", query: "x" } }),
    ).toEqual({
      kind: "HogQLQuery",
      query: "x",
    });
    expect(insightSource({ kind: "EventsQuery" })).toBeNull();
  });
});

describe("zones", () => {
  it("read wall clocks, through changes of them", () => {
    expect(zonedTime("2026-11-01", "UTC")).toBe(Date.UTC(2026, 10, 1));
    expect(zonedTime("2026-07-01", "Europe/Berlin")).toBe(Date.UTC(2026, 5, 30, 22));
    expect(zonedTime("2026-03-29 12:00:00", "Europe/Berlin")).toBe(Date.UTC(2026, 2, 29, 10));
    expect(zonedTime("2026-11-01T00:00:00Z", "Asia/Kathmandu")).toBe(Date.UTC(2026, 10, 1));
    expect(zonedDate(Date.UTC(2026, 10, 1, 20), "Asia/Kathmandu")).toBe("2026-11-02");
  });

  it("tell the hour that comes twice from the one before", () => {
    const hours = ["2026-10-25 01:00:00", "2026-10-25 02:00:00", "2026-10-25 02:00:00"];
    const times = intervalTimes(hours, "hour", "Europe/Berlin");
    expect(new Set(times).size).toBe(3);
    expect([...times].sort((a, b) => a - b)).toEqual(times);
  });
});

/// Tests give only the keys that they are about.
const answer = (results: unknown): Answer => ({
  results: results as Answer["results"],
  resolved_date_range: { date_from: "2026-11-01T00:00:00Z", date_to: "2026-11-03T23:59:59Z" },
});
const NOW = Date.UTC(2026, 10, 3, 12);

describe("results", () => {
  const days = ["2026-11-01", "2026-11-02", "2026-11-03"];
  const query: TrendsQuery = {
    kind: "TrendsQuery",
    series: [{ kind: "EventsNode", event: "a" }],
    compareFilter: { compare: true },
  };
  const items = [
    { label: "a", data: [1, 2, 3], days, action: { order: 0 }, compare_label: "current" },
    {
      label: "a",
      data: [4, 5, 6],
      days: ["2026-10-29", "2026-10-30", "2026-10-31"],
      action: { order: 0 },
      compare_label: "previous",
    },
  ];

  it("of trends are lines, the range before in the same colour", () => {
    const model = resultModel(query, answer(items), { timeZone: "UTC", now: NOW });
    if (model.type !== "time") throw new Error(model.type);
    expect(model.unfinishedFrom).toBe(2);
    expect(model.series.map(({ compare }) => compare)).toEqual([false, true]);
    expect(model.series[0]?.color).toBe(model.series[1]?.color);
    expect(model.times[0]).toBe(Date.UTC(2026, 10, 1));
  });

  it("of totals are a number with what was before", () => {
    const total: TrendsQuery = { ...query, trendsFilter: { display: "BoldNumber" } };
    const found = items.map((item, at) => ({ ...item, data: [], aggregated_value: 10 - at }));
    expect(resultModel(total, answer(found), { timeZone: "UTC", now: NOW })).toMatchObject({
      type: "number",
      value: 10,
      compare: 9,
    });
  });

  it("of retention leave out periods that have not begun", () => {
    const row = (date: string) => ({
      label: "Day 0",
      date,
      values: [{ count: 4 }, { count: 2 }, { count: 0 }],
    });
    const rows = [row("2026-11-02T00:00:00Z"), row("2026-11-03T00:00:00Z")];
    const model = resultModel({ kind: "RetentionQuery" }, answer(rows), {
      timeZone: "UTC",
      now: NOW,
    });
    if (model.type !== "retention") throw new Error(model.type);
    expect(model.cohorts.map(({ values }) => values)).toEqual([
      [4, 2, null],
      [4, null, null],
    ]);
    expect(model.cohorts[0]?.unfinishedFrom).toBe(1);
  });

  it("may be empty", () => {
    for (const kind of KINDS) {
      const empty = newQuery(kind, "a");
      expect(resultModel(empty, answer([]), { timeZone: "UTC", now: NOW }).type).toBe("empty");
    }
  });

  it("put compared funnels side by side", () => {
    const funnel: FunnelsQuery = {
      kind: "FunnelsQuery",
      series: [
        { kind: "EventsNode", event: "a" },
        { kind: "EventsNode", event: "b", optionalInFunnel: true },
        { kind: "EventsNode", event: "c" },
      ],
      compareFilter: { compare: true },
    };
    const step = (order: number, count: number, side: string) => ({
      name: "abc".charAt(order),
      order,
      count,
      compare_label: side,
    });
    const steps = [
      ...[10, 3, 8].map((count, order) => step(order, count, "current")),
      ...[5, 5, 0].map((count, order) => step(order, count, "previous")),
    ];
    const options = { timeZone: "UTC", now: NOW };
    expect(resultModel(funnel, answer(steps), options)).toMatchObject({
      type: "funnel",
      series: [
        {
          id: "0",
          label: "Current",
          compare: false,
          steps: [{}, { optional: true }, { count: 8 }],
        },
        { id: "1", label: "Previous", compare: true, steps: [{ count: 5 }, {}, {}] },
      ],
    });
    // Those who dropped off before a step had completed the required one before it.
    expect(pointOf(funnel, answer(steps), { item: 0, at: "-3" }, "UTC")?.value).toBe(2);
    expect(pointOf(funnel, answer(steps), { item: 1, at: "-3" }, "UTC")).toMatchObject({
      value: 5,
      actors: { funnelStep: -3, compare: "previous" },
    });
    const times = {
      ...funnel,
      funnelsFilter: { funnelVizType: "time_to_convert" as const },
    };
    const histogram = (side: string, count: number) => ({
      bins: [
        [60, count],
        [120, 0],
      ],
      compare_label: side,
    });
    const found = answer([histogram("current", 4), histogram("previous", 1)]);
    expect(resultModel(times, found, options)).toMatchObject({
      type: "categories",
      series: [
        { label: "Current", values: [4] },
        { label: "Previous", values: [1], compare: true },
      ],
    });
  });

  it("give brackets of retention their headings", () => {
    const retention: RetentionQuery = {
      kind: "RetentionQuery",
      retentionFilter: { retentionCustomBrackets: [1, 3] },
    };
    const labels = ["Day 0", "Day 1", "Day 2-4"];
    const start = new Date(NOW - 2 * 86_400_000).toISOString();
    const row = {
      date: start,
      label: "Day 0",
      values: labels.map((label) => ({ count: 1, label })),
    };
    const model = resultModel(retention, answer([row]), { timeZone: "UTC", now: NOW });
    expect(model).toMatchObject({
      type: "retention",
      headings: labels,
      cohorts: [{ values: [1, 1, 1], unfinishedFrom: 2 }],
    });
    expect(pointOf(retention, answer([row]), { item: 0, at: "2" }, "UTC")?.title).toContain(
      "day 2-4",
    );
  });

  it("give cells of retention their amounts, until their period begins", () => {
    const retention: RetentionQuery = {
      kind: "RetentionQuery",
      retentionFilter: { aggregationType: "sum", aggregationProperty: "amount" },
    };
    const row = {
      date: new Date(NOW - 86_400_000).toISOString(),
      label: "Day 0",
      values: [12.5, 3, 0].map((amount, at) => ({
        count: 2,
        label: `Day ${at}`,
        aggregation_value: amount,
      })),
    };
    expect(resultModel(retention, answer([row]), { timeZone: "UTC", now: NOW })).toMatchObject({
      cohorts: [{ values: [2, 2, null], amounts: [12.5, 3, null] }],
    });
  });

  it("name the persons of a point", () => {
    expect(pointOf(query, answer(items), { item: 1, at: "2026-10-30" }, "UTC")).toMatchObject({
      value: 5,
      actors: { kind: "InsightActorsQuery", day: "2026-10-30", compare: "previous", series: 0 },
    });
    expect(pointOf(query, answer(items), { item: 0, at: "2026-10-30" }, "UTC")).toBeNull();
    const formula = { ...query, trendsFilter: { formula: "A" } };
    expect(
      pointOf(formula, answer(items), { item: 0, at: "2026-11-01" }, "UTC")?.actors,
    ).toBeNull();
    const funnel = newQuery("FunnelsQuery", "a") as FunnelsQuery;
    const steps = [
      { name: "a", order: 0, count: 10 },
      { name: "b", order: 1, count: 4 },
    ];
    expect(pointOf(funnel, answer(steps), { item: 0, at: "-2" }, "UTC")).toMatchObject({
      value: 6,
      actors: { kind: "FunnelsActorsQuery", funnelStep: -2 },
    });
    const paths = newQuery("PathsQuery", "a");
    const edges = [{ source: "1_/", target: "2_/a>b", value: 3, average_conversion_time: 1 }];
    expect(pointOf(paths, answer(edges), { item: 0, at: "1_/>" }, "UTC")?.value).toBe(3);
  });
});

describe("points", () => {
  it("survive the URL", () => {
    for (const ref of [
      { item: 0, at: "2026-11-01 10:00:00" },
      { item: 12, at: "" },
      { item: 0, at: "1_/a.b>2_/c" },
    ]) {
      expect(readPoint(writePoint(ref))).toEqual(ref);
    }
    expect(readPoint(undefined)).toBeNull();
    expect(readPoint("x")).toBeNull();
  });
});

describe("breakdowns", () => {
  it("are read from both forms and written to one", () => {
    const single = { breakdown: "$browser", breakdown_type: "event" as const, breakdown_limit: 5 };
    const read = readBreakdowns(single);
    expect(read).toEqual([{ property: "$browser", type: "event" }]);
    expect(writeBreakdowns(single, read)).toEqual({ breakdown_limit: 5, breakdowns: read });
    expect(writeBreakdowns(single, [])).toBeUndefined();
    const cohorts = { breakdown: [3, "all"], breakdown_type: "cohort" as const };
    expect(writeBreakdowns(cohorts, readBreakdowns(cohorts))).toEqual(cohorts);
  });
});

describe("calls", () => {
  it("quote for shells", () => {
    expect(curlOf("http://h", "1", { kind: "x", name: "it's" })).toContain("it'\\''s");
  });
});
