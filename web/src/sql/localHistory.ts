/// Statements that were run in this browser, the draft that was left, and what is open beside it.

import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";

export interface RunEntry {
  text: string;
  /// Milliseconds since 1970.
  at: number;
  rows: number | null;
  ms: number;
}

const RUNS_MAX = 50;
/// A statement that is longer is not kept: the store of a site is small.
const TEXT_CHARS_MAX = 20_000;

/// Of one person: the next one to use this browser may not see the same.
function key(what: "runs" | "draft", projectId: string): string {
  return `hedgerow.sql.${what}.${queryClient.getQueryData(meQuery.queryKey)?.uuid}.${projectId}`;
}

function isEntry(value: unknown): value is RunEntry {
  if (typeof value !== "object" || value === null) return false;
  const { text, at } = value as Partial<RunEntry>;
  return typeof text === "string" && typeof at === "number";
}

/// The newest first, each statement once.
export function withRun(runs: readonly RunEntry[], run: RunEntry): RunEntry[] {
  if (run.text.length > TEXT_CHARS_MAX) return [...runs];
  return [run, ...runs.filter(({ text }) => text !== run.text)].slice(0, RUNS_MAX);
}

export function readRuns(projectId: string): RunEntry[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(key("runs", projectId)) ?? "[]");
    return Array.isArray(all) ? all.filter(isEntry).slice(0, RUNS_MAX) : [];
  } catch {
    return [];
  }
}

function write(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // The store is full or forbidden: the editor works without.
  }
}

export function writeRuns(projectId: string, runs: readonly RunEntry[]): void {
  write(key("runs", projectId), runs.length > 0 ? JSON.stringify(runs) : null);
}

export function readLeftDraft(projectId: string): string {
  return localStorage.getItem(key("draft", projectId)) ?? "";
}

export function leaveDraft(projectId: string, fragment: string): void {
  write(key("draft", projectId), fragment.length <= TEXT_CHARS_MAX ? fragment || null : null);
}

/// Of the browser: which tables there are is no secret of a person.
const TABLES_OPEN = "hedgerow.sql.tables";
const EXPANDED = "hedgerow.sql.expanded";

export function readTablesOpen(): boolean {
  return localStorage.getItem(TABLES_OPEN) !== "closed";
}

export function writeTablesOpen(open: boolean): void {
  write(TABLES_OPEN, open ? null : "closed");
}

/// Tables whose columns are shown: at first those of events.
export function readExpanded(): string[] {
  return (localStorage.getItem(EXPANDED) ?? "events").split(" ").filter(Boolean);
}

export function writeExpanded(tables: readonly string[]): void {
  write(EXPANDED, tables.join(" "));
}
