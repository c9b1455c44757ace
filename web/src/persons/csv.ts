import type { Schemas } from "@/api/client";
import { downloadCsv } from "@/charts/export";
import type { ChartData } from "@/charts/types";

type PersonItem = Schemas["PersonItem"];

/// Rows of one CSV; the API lists a thousand at once.
export const CSV_ROWS_MAX = 50_000;
export const CSV_PAGE_ROWS = 1_000;

function cell(value: unknown): string | number | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" || typeof value === "string") return value;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/// One row a person, with a column for each property that any of them has.
export function personTable(persons: readonly PersonItem[]): ChartData {
  const names = new Set(persons.flatMap(({ properties }) => Object.keys(properties)));
  const properties = [...names].sort();
  return {
    columns: ["id", "name", "distinct_ids", "created_at", ...properties],
    rows: persons.map((person) => [
      person.uuid,
      person.name,
      person.distinct_ids.join(" "),
      person.created_at,
      ...properties.map((name) => cell(person.properties[name])),
    ]),
  };
}

export interface PersonPage {
  results: readonly PersonItem[];
  next?: string | null;
}

/// Downloads all persons of a list, page by page.
export async function downloadPersons(
  title: string,
  page: (offset: number, limit: number) => Promise<PersonPage>,
): Promise<void> {
  const persons: PersonItem[] = [];
  while (persons.length < CSV_ROWS_MAX) {
    const { results, next } = await page(persons.length, CSV_PAGE_ROWS);
    persons.push(...results);
    if (!next || results.length === 0) break;
  }
  downloadCsv(title, personTable(persons));
}
