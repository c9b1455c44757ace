import { useMemo } from "react";
import { valueText } from "@/events/columns";
import { columnShapes } from "@/insights/sqlChart";
import { EmptyState } from "@/ui";
import { exact } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import type { Finished } from "./useRun";

type Row = { at: number; cells: readonly unknown[] };

function rowsOf({ answer }: Finished): Row[] {
  const results = (Array.isArray(answer.results) ? answer.results : []) as unknown[][];
  return results.map((cells, at) => ({ at, cells }));
}

function sortable(value: unknown): string | number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" || typeof value === "string" ? value : valueText(value);
}

export function SqlTable({ finished, stale }: { finished: Finished; stale: boolean }) {
  const rows = useMemo(() => rowsOf(finished), [finished]);
  const columns = useMemo(
    () =>
      columnShapes(finished.answer).map(
        ({ name, kind }, at): Column<Row> => ({
          id: String(at),
          header: name,
          align: kind === "number" ? "right" : "left",
          sortValue: ({ cells }) => sortable(cells[at]),
          cell: ({ cells }) => <Cell value={cells[at]} />,
        }),
      ),
    [finished],
  );
  if (rows.length === 0) {
    return (
      <EmptyState title="No rows" className="py-10">
        The statement ran, and found nothing.
      </EmptyState>
    );
  }
  return (
    <Table
      label="Rows"
      className="max-h-[max(18rem,calc(100dvh-14rem))]"
      rows={rows}
      columns={columns}
      rowKey={({ at }) => String(at)}
      stale={stale}
    />
  );
}

function Cell({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="text-faint">null</span>;
  if (typeof value === "number") return exactNumber(value);
  const text = valueText(value);
  return (
    <span
      title={text.length > 40 ? text : undefined}
      className={`block max-w-96 truncate ${typeof value === "object" ? "font-mono text-xs" : ""}`}
    >
      {text}
    </span>
  );
}

/// All digits: a query's numbers may be ids or shares.
function exactNumber(value: number): string {
  return Number.isInteger(value) && Math.abs(value) >= 10_000 ? exact(value) : String(value);
}
