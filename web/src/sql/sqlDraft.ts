/// What is edited: a statement, the values of its variables, and its chart.

import { insightSource, type SqlQuery } from "@/insights/queries";
import { chartSettings, type SqlChart, sqlChartOf } from "@/insights/sqlChart";
import { parseValue, type ValueType, valueType } from "@/persons/propertyValue";
import { decodeJson, encodeJson, sameJson } from "@/shell/fragment";
import { variableNames } from "./names";

export interface VariableDraft {
  type: ValueType;
  text: string;
}

export interface SqlDraft {
  text: string;
  /// By the name that the statement gives them.
  variables: Readonly<Record<string, VariableDraft>>;
  /// Null until one chooses: then the answer suggests one.
  chart: SqlChart | null;
}

export const EMPTY_DRAFT: SqlDraft = { text: "", variables: {}, chart: null };

/// The query that is sent. A part of the statement may be run by itself. A variable without a value has
/// the default of the project's variable of its name.
export function sqlQuery(draft: SqlDraft, text = draft.text): SqlQuery {
  const variables = variableNames(text).flatMap((name) => {
    const variable = draft.variables[name];
    if (!variable) return [];
    const parsed = parseValue(variable.type, variable.text);
    const given = "value" in parsed ? parsed.value : variable.text;
    return [[name, { variableId: name, code_name: name, value: given, isNull: given === null }]];
  });
  if (variables.length === 0) return { kind: "HogQLQuery", query: text };
  return { kind: "HogQLQuery", query: text, variables: Object.fromEntries(variables) };
}

/// The draft with an empty text for each variable that has neither a value nor a default.
export function withBlanks(draft: SqlDraft, known: ReadonlySet<string>): SqlDraft {
  const blank = variableNames(draft.text).filter(
    (name) => !draft.variables[name] && !known.has(name),
  );
  if (blank.length === 0) return draft;
  const added = blank.map((name): [string, VariableDraft] => [name, { type: "text", text: "" }]);
  return { ...draft, variables: { ...draft.variables, ...Object.fromEntries(added) } };
}

/// The variables whose text is no value of their type.
export function wrongVariables(draft: SqlDraft): string[] {
  return variableNames(draft.text).filter((name) => {
    const variable = draft.variables[name];
    return variable !== undefined && "error" in parseValue(variable.type, variable.text);
  });
}

/// The stored form, which PostHog's clients read as well.
export function storedQuery(draft: SqlDraft, chart: SqlChart) {
  return {
    kind: "DataVisualizationNode" as const,
    source: sqlQuery(draft),
    display: chart.display,
    chartSettings: chartSettings(chart),
  };
}

/// The draft of a stored query, also of PostHog's; null for another kind.
export function draftOf(stored: unknown): SqlDraft | null {
  if (typeof stored === "string") return { ...EMPTY_DRAFT, text: stored };
  const source = insightSource(stored);
  if (source?.kind !== "HogQLQuery") return null;
  const variables = Object.values(source.variables ?? {}).flatMap(
    ({ code_name: name, value = null, isNull }): [string, VariableDraft][] => {
      // Without a value, the default counts.
      if (value === null && !isNull) return [];
      const type = isNull ? "null" : valueType(value);
      const text = type === "json" ? JSON.stringify(value) : String(value ?? "");
      return [[name, { type, text }]];
    },
  );
  const isChart = (stored as { kind?: unknown }).kind === "DataVisualizationNode";
  return {
    text: source.query,
    variables: Object.fromEntries(variables),
    chart: isChart ? sqlChartOf(stored) : null,
  };
}

export const SQL_CODEC = {
  encode: (draft: SqlDraft) =>
    encodeJson(draft.chart ? storedQuery(draft, draft.chart) : sqlQuery(draft)),
  decode: (fragment: string) => decodeJson(fragment, draftOf),
  same: (a: SqlDraft, b: SqlDraft) =>
    sameJson(
      a.chart ? storedQuery(a, a.chart) : sqlQuery(a),
      b.chart ? storedQuery(b, b.chart) : sqlQuery(b),
    ),
};
