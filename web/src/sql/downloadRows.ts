import { downloadCsv } from "@/charts/export";
import type { Answer } from "@/insights/queries";
import { sqlRows } from "@/insights/results";
import { resultTable } from "@/insights/resultTable";

/// Downloads the rows of an answer as they are in the table.
export function downloadRows(title: string, { results, columns }: Answer): void {
  const rows = (Array.isArray(results) ? results : []) as unknown[][];
  downloadCsv(title, resultTable(sqlRows(rows, columns), "UTC"));
}
