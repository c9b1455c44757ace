import { describe, expect, it } from "vitest";
import { insightSource } from "@/insights/queries";
import { completionsAt, insertion, sourcesOf } from "./completion";
import { withRun } from "./localHistory";
import { variableNames, writtenName } from "./names";
import { offsetOf, problemOf, problemsOf } from "./positions";
import { readSchema, type SqlNames } from "./schema";
import { draftOf, EMPTY_DRAFT, SQL_CODEC, type SqlDraft, sqlQuery, withBlanks } from "./sqlDraft";

const draft: SqlDraft = {
  text: "select count() from events where properties.plan = {variables.plan} -- 50 %\n#\"'",
  variables: { plan: { type: "text", text: "pro & more" } },
  chart: { display: "ActionsBar", x: "day", y: ["n"], series: "plan" },
};

describe("a draft of SQL", () => {
  it.each([
    [draft],
    [{ ...draft, chart: null }],
    [{ ...EMPTY_DRAFT, text: "select 1" }],
    [{ ...draft, variables: { plan: { type: "number" as const, text: "12.5" } } }],
    [{ ...draft, variables: { plan: { type: "null" as const, text: "" } } }],
  ])("goes through the URL unchanged: %#", (one) => {
    expect(SQL_CODEC.decode(`#${SQL_CODEC.encode(one)}`)).toEqual(one);
  });

  it("is taken from other forms, and nothing else is", () => {
    expect(draftOf("select 1")?.text).toBe("select 1");
    expect(draftOf({ kind: "DataTableNode", source: sqlQuery(draft) })?.chart).toBeNull();
    expect(draftOf({ kind: "TrendsQuery", series: [] })).toBeNull();
    expect(insightSource(sqlQuery(draft))).toEqual(sqlQuery(draft));
  });

  it("sends the variables that the statement names, as their types", () => {
    expect(variableNames("{variables.a} { variables . `1 ä` } {variables.a} {filters}")).toEqual([
      "a",
      "1 ä",
    ]);
    const variables = {
      n: { type: "number" as const, text: "3" },
      gone: { type: "text" as const, text: "x" },
    };
    const text = "select {variables.n}, {variables.m}";
    expect(sqlQuery({ ...draft, variables, text }).variables).toEqual({
      n: { variableId: "n", code_name: "n", value: 3, isNull: false },
    });
    expect(sqlQuery(draft, "select 1").variables).toBeUndefined();
  });

  it("leaves variables without a value to the defaults of the project, and the others empty", () => {
    const text = "select {variables.known}, {variables.other}";
    const filled = withBlanks({ ...EMPTY_DRAFT, text }, new Set(["known"]));
    expect(filled.variables).toEqual({ other: { type: "text", text: "" } });
    expect(Object.keys(sqlQuery(filled).variables ?? {})).toEqual(["other"]);
    const stored = { known: { code_name: "known" }, gone: { code_name: "gone", isNull: true } };
    expect(draftOf({ kind: "HogQLQuery", query: text, variables: stored })?.variables).toEqual({
      gone: { type: "null", text: "" },
    });
  });
});

describe("places of problems", () => {
  const marked = (text: string, detail: string) => {
    const found = problemOf(text, detail);
    return found && [text.slice(found.from, found.to), found.message, found.fix];
  };

  it("are words of the statement, counted in characters", () => {
    expect(
      marked("select evnt", "Unknown field 'evnt'. Did you mean 'event'? (at line 1, column 8)"),
    ).toEqual(["evnt", "Unknown field 'evnt'. Did you mean 'event'?", "event"]);
    expect(marked("select '🌲',\n  '🌲', evnt", "Unknown (at line 2, column 8)")?.[0]).toBe("evnt");
    expect(marked("select 1 +", "Syntax error (at line 1, column 11)")?.[0]).toBe("+");
    expect(problemOf("select 1", "Too many queries at once.")).toBeNull();
    expect(offsetOf("a🌲b", 2)).toBe(3);
  });

  it("come from the check as well", () => {
    const text = "select '🌲', evnt";
    const errors = [{ start: 12, end: 16, message: "Unknown", fix: "event" }, { message: "x" }];
    expect(
      problemsOf(text, { errors })?.map(({ from, to, fix }) => [text.slice(from, to), fix]),
    ).toEqual([
      ["evnt", "event"],
      [text, null],
    ]);
    expect(problemsOf(text, { results: [] })).toBeNull();
  });
});

describe("completion", () => {
  const names: SqlNames = {
    ...readSchema({
      tables: {
        events: { fields: { event: { name: "event" }, p: { name: "a b", hogql_value: "`a b`" } } },
        persons: { fields: { id: { name: "id" }, created_at: { name: "created_at" } } },
      },
      functions: [{ name: "count", returns: "UInt64" }],
    }),
    events: ["order paid", "it's"],
    eventProperties: ["amount", "my plan"],
    personProperties: ["email"],
    variables: ["country"],
  };
  const at = (marked: string) => {
    const position = marked.indexOf("|");
    const found = completionsAt(marked.replace("|", ""), position, names);
    return found?.options.map(({ label }) => label) ?? null;
  };

  it("knows what can stand where", () => {
    expect(at("select properties.am| from events")).toEqual(["amount", "my plan"]);
    expect(at("select person.properties.| from events")).toEqual(["email"]);
    expect(at("select p.properties.| from persons p")).toEqual(["email"]);
    expect(at("select e.| from events as e")).toEqual(["event", "`a b`"]);
    expect(at("select person.| from events")).toEqual(["id", "created_at"]);
    expect(at("select 1 from ev|")).toEqual(["events", "persons"]);
    expect(at("select 1 from events where event = 'or|")).toEqual(["order paid", "it's"]);
    expect(at("select 1 from events where event in ('a', '|")).toEqual(["order paid", "it's"]);
    expect(at("select {variables.|}")).toEqual(["country"]);
    expect(at("select {va|}")).toEqual(["variables"]);
    expect(at("select ev|")).toEqual(expect.arrayContaining(["event", "`a b`"]));
    expect(at("select c| from events")).toEqual(expect.arrayContaining(["event", "count", "FROM"]));
  });

  it("reads the type of a column, or what it leads to", () => {
    const fields = {
      event: { name: "event", type: "string" },
      person: { name: "person", type: "lazy_table", table: "persons" },
      company: { name: "company", type: "field_traverser", chain: ["group_0"] },
    };
    expect(readSchema({ tables: { events: { fields } } }).tables).toEqual({
      events: [
        { name: "event", type: "string", joins: false },
        { name: "person", type: "→ persons", joins: true },
        { name: "company", type: "→ group_0", joins: false },
      ],
    });
  });

  it("puts a clicked name behind what is there", () => {
    expect(insertion("SELECT ", "event", "column")).toBe("event");
    expect(insertion("SELECT event", "timestamp", "column")).toBe(", timestamp");
    expect(insertion("SELECT count()", "timestamp", "column")).toBe(", timestamp");
    expect(insertion("select", "event", "column")).toBe(" event");
    expect(insertion("SELECT e.", "event", "column")).toBe("event");
    expect(insertion("SELECT event FROM", "events", "table")).toBe(" events");
  });

  it("offers nothing in strings and comments", () => {
    expect(at("select 'ev|' from events")).toBeNull();
    expect(at("select 1 -- ev|")).toBeNull();
    expect(at("select 'it\\'s' , ev| from events")).not.toBeNull();
  });

  it("writes names so that they are read back", () => {
    expect(writtenName("$browser")).toBe("$browser");
    expect(writtenName("my plan")).toBe("`my plan`");
    expect([...sourcesOf("from events e join persons on x")]).toEqual([
      ["events", "events"],
      ["e", "events"],
      ["persons", "persons"],
    ]);
  });
});

it("the history keeps each statement once, the newest first", () => {
  const run = (text: string, at: number) => ({ text, at, rows: 1, ms: 1 });
  const runs = withRun(withRun(withRun([], run("a", 1)), run("b", 2)), run("a", 3));
  expect(runs.map(({ text, at }) => `${text}${at}`)).toEqual(["a3", "b2"]);
  let many = runs;
  for (let at = 0; at < 80; at++) many = withRun(many, run(`q${at}`, at));
  expect(many).toHaveLength(50);
});
