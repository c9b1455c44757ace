/// Completion from what is in memory: nothing here waits for the network.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { writtenName } from "./names";
import type { SqlNames } from "./schema";

const PROPERTY = /((?:[A-Za-z_]\w*\s*\.\s*)*)properties\s*\.\s*(`?)([\w$ ]*)$/;
const EVENT = /\bevent\s*(?:=|!=|<>|in\s*\(?|IN\s*\(?)\s*(?:'[^']*'\s*,\s*)*'([^']*)$/;
const MEMBER = /([A-Za-z_]\w*)\s*\.\s*(\w*)$/;
const PLACEHOLDER = /\{\s*(\w*)$/;
const VARIABLE = /\{\s*variables\s*\.\s*([\p{L}\p{N}_]*)$/u;
const NAME = /[A-Za-z_$][\w$]*$/;
const SOURCE = /\b(?:from|join)\s+([A-Za-z_]\w*)(?:\s+(?:as\s+)?([A-Za-z_]\w*))?/gi;
/// Words behind a table that are no alias.
const NO_ALIAS =
  /^(?:where|prewhere|group|order|having|limit|offset|union|join|inner|left|right|full|cross|array|on|using|final|sample|window|intersect|except|settings)$/i;

export const KEYWORDS = [
  "SELECT",
  "DISTINCT",
  "FROM",
  "WHERE",
  "PREWHERE",
  "GROUP BY",
  "HAVING",
  "ORDER BY",
  "LIMIT",
  "OFFSET",
  "WITH",
  "AS",
  "AND",
  "OR",
  "NOT",
  "IN",
  "IS NULL",
  "IS NOT NULL",
  "BETWEEN",
  "LIKE",
  "ILIKE",
  "CASE",
  "WHEN",
  "THEN",
  "ELSE",
  "END",
  "LEFT JOIN",
  "INNER JOIN",
  "CROSS JOIN",
  "ARRAY JOIN",
  "ON",
  "UNION ALL",
  "INTERVAL",
  "ASC",
  "DESC",
  "OVER",
  "PARTITION BY",
  "true",
  "false",
  "NULL",
] as const;

/// The tables that a statement reads, by the names under which it knows them.
export function sourcesOf(text: string): Map<string, string> {
  const sources = new Map<string, string>();
  for (const [, table = "", alias = ""] of text.matchAll(SOURCE)) {
    sources.set(table, table);
    if (alias && !NO_ALIAS.test(alias)) sources.set(alias, table);
  }
  return sources;
}

function properties(names: readonly string[]): Completion[] {
  return names.map((name) => ({ label: name, apply: writtenName(name), type: "property" }));
}

/// What can stand at a place of a statement, and where it begins; null for nothing.
export function completionsAt(
  text: string,
  at: number,
  names: SqlNames,
): { from: number; options: Completion[] } | null {
  const before = text.slice(0, at);
  const event = EVENT.exec(before);
  if (event) {
    const options = names.events.map((name) => ({
      label: name,
      apply: name.replaceAll("\\", "\\\\").replaceAll("'", "\\'"),
      type: "constant",
    }));
    return { from: at - (event[1]?.length ?? 0), options };
  }
  if (isInside(before)) return null;
  const variable = VARIABLE.exec(before) ?? PLACEHOLDER.exec(before);
  if (variable) {
    const isMember = VARIABLE.test(before);
    const known = names.variables.map((label) => ({
      label,
      apply: writtenName(label),
      type: "variable",
    }));
    const options = isMember ? known : [{ label: "variables", apply: "variables.", type: "class" }];
    return { from: at - (variable[1]?.length ?? 0), options };
  }
  const sources = sourcesOf(text);
  const property = PROPERTY.exec(before);
  if (property) {
    const [, chain = "", quote = "", typed = ""] = property;
    const owner = chain.replace(/\s/g, "").replace(/\.$/, "").split(".").at(-1) ?? "";
    const isPerson = owner === "person" || sources.get(owner) === "persons";
    const known = isPerson ? names.personProperties : names.eventProperties;
    return { from: at - typed.length - quote.length, options: properties(known) };
  }
  const member = MEMBER.exec(before);
  if (member) {
    const [, owner = "", typed = ""] = member;
    const table = sources.get(owner) ?? (owner === "person" ? "persons" : owner);
    const columns = names.tables[table];
    if (!columns) return null;
    const options = columns.map(({ name, type }) => ({
      label: name,
      detail: type,
      type: "property",
    }));
    return { from: at - typed.length, options };
  }
  const typed = NAME.exec(before)?.[0] ?? "";
  const from = at - typed.length;
  const isTable = /\b(?:from|join)\s+$/i.test(text.slice(0, from));
  const tables = Object.keys(names.tables).map((label) => ({ label, type: "class" }));
  if (isTable) return { from, options: tables };
  const columns = new Map<string, Completion>();
  // The columns are written before the table: most statements read events.
  if (sources.size === 0) sources.set("events", "events");
  for (const [alias, table] of sources) {
    for (const { name: label } of names.tables[table] ?? []) {
      columns.set(label, { label, detail: table, type: "property", boost: 2 });
    }
    if (alias !== table) columns.set(alias, { label: alias, detail: table, type: "class" });
  }
  const functions = names.functions.map(({ name, detail }) => ({
    label: name,
    detail,
    apply: `${name}(`,
    type: "function",
  }));
  const keywords = KEYWORDS.map((label) => ({ label, type: "keyword", boost: 1 }));
  return { from, options: [...columns.values(), ...keywords, ...tables, ...functions] };
}

/// A name as it is put behind what stands before the cursor: a column behind another one takes a comma.
export function insertion(before: string, name: string, kind: "table" | "column"): string {
  const [last = ""] = /[\w$]+$|[`"')]$/.exec(before) ?? [];
  if (last === "") return name;
  const isKeyword = KEYWORDS.some((words) => words.split(" ").includes(last.toUpperCase()));
  return kind === "column" && !isKeyword ? `, ${name}` : ` ${name}`;
}

/// Whether the end of a text is in a string or a comment.
function isInside(text: string): boolean {
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const one = text[at] ?? "";
    if (quote === "'") {
      if (one === "\\") at++;
      else if (one === "'") quote = "";
    } else if (quote === "--") {
      if (one === "\n") quote = "";
    } else if (quote === "/*") {
      if (one === "*" && text[at + 1] === "/") {
        quote = "";
        at++;
      }
    } else if (one === "'") quote = "'";
    else if (one === "-" && text[at + 1] === "-") quote = "--";
    else if (one === "/" && text[at + 1] === "*") quote = "/*";
  }
  return quote !== "";
}

export function completionSource(names: () => SqlNames) {
  return (context: CompletionContext): CompletionResult | null => {
    // It comes a moment after a key; a list that opens after the focus has left covers the page.
    if (context.view && !context.view.hasFocus) return null;
    const text = context.state.doc.toString();
    const found = completionsAt(text, context.pos, names());
    if (!found || found.options.length === 0) return null;
    const afterDot = /[.'`]\s*$/.test(text.slice(0, context.pos));
    if (found.from === context.pos && !context.explicit && !afterDot) return null;
    return { ...found, validFor: /^[`\w$ ]*$/ };
  };
}
