/// Lists of persons, typed or from a CSV file, and the persons that they name.

import { ask } from "@/insights/queries";

export type IdKind = "distinct_id" | "email" | "person_id";

export interface PersonList {
  kind: IdKind;
  ids: string[];
}

/// Longer lists belong into several uploads.
export const IDS_MAX = 50_000;
const IDS_PER_QUERY = 5_000;
const ROWS_MAX = 50_000;

/// Recognized columns, in order of preference.
const COLUMNS: readonly [string, IdKind][] = [
  ["person_id", "person_id"],
  ["distinct_id", "distinct_id"],
  ["distinct-id", "distinct_id"],
  ["email", "email"],
];

/// The rows of RFC 4180 with any line ending, without empty ones; null if a quote is not closed.
function rowsOf(text: string): string[][] | null {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  const endRow = () => {
    row.push(cell);
    if (row.some((one) => one.trim() !== "")) rows.push(row);
    row = [];
    cell = "";
  };
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (quoted) {
      if (one !== '"') cell += one;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else quoted = false;
    } else if (one === '"' && cell === "") quoted = true;
    else if (one === ",") {
      row.push(cell);
      cell = "";
    } else if (one === "\n" || one === "\r") endRow();
    else cell += one;
  }
  endRow();
  return quoted ? null : rows;
}

/// The ids of a text. A header names what they are; of a file, a table without one is refused.
export function readList(
  text: string,
  kind: IdKind,
  isFile = false,
): PersonList | { error: string } {
  const rows = rowsOf(text.replace(/^\ufeff/, ""));
  if (!rows) return { error: "The list ends within quotes." };
  const head = (rows[0] ?? []).map((cell) => cell.trim().toLowerCase());
  const known = COLUMNS.find(([name]) => head.includes(name));
  if (!known && isFile && head.length > 1) {
    return { error: "One column must be called distinct_id, email or person_id." };
  }
  const cells = known
    ? rows.slice(1).map((row) => row[head.indexOf(known[0])] ?? "")
    : rows.flatMap((row) => (isFile ? row : row.flatMap((cell) => cell.split(";"))));
  const found = known?.[1] ?? kind;
  const trimmed = cells.map((cell) => cell.trim()).filter((cell) => cell !== "");
  // Uuids are stored in lower case.
  const ids = trimmed.map((id) => (found === "person_id" ? id.toLowerCase() : id));
  const distinct = [...new Set(ids)];
  if (distinct.length > IDS_MAX) {
    return { error: `A list has at most ${IDS_MAX} entries: split it.` };
  }
  return { kind: found, ids: distinct };
}

const SELECT: Record<IdKind, string> = {
  distinct_id: "SELECT person_id FROM person_distinct_ids WHERE distinct_id IN {ids}",
  email: "SELECT id FROM persons WHERE properties.email IN {ids}",
  person_id: "SELECT id FROM persons WHERE toString(id) IN {ids}",
};

/// The uuids of the persons that a list names.
export async function resolvePersons(
  projectId: string,
  { kind, ids }: PersonList,
): Promise<string[]> {
  const found = new Set<string>();
  for (let from = 0; from < ids.length; from += IDS_PER_QUERY) {
    const part = ids.slice(from, from + IDS_PER_QUERY);
    const answer = await ask(projectId, {
      kind: "HogQLQuery",
      query: `${SELECT[kind]} LIMIT ${ROWS_MAX}`,
      values: { ids: part },
    });
    for (const [id] of answer.results) found.add(String(id));
  }
  return [...found];
}
