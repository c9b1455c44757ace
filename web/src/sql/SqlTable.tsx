import { useMemo } from "react";
import { valueText } from "@/events/columns";
import { columnShapes } from "@/insights/sqlChart";
import { EmptyState } from "@/ui";
import { dateTime, exact } from "@/ui/format";
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
      columnShapes(finished.answer).map(({ name, kind }, at): Column<Row> => {
        const time = kind === "time" ? timeShape(rows.map(({ cells }) => cells[at])) : null;
        return {
          id: String(at),
          header: name,
          align: kind === "number" ? "right" : "left",
          sortValue: ({ cells }) => sortable(cells[at]),
          cell: ({ cells }) => <Cell value={cells[at]} time={time} />,
        };
      }),
    [finished, rows],
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

function Cell({ value, time }: { value: unknown; time: "date" | "second" | null }) {
  if (value === null || value === undefined) return <span className="text-faint">null</span>;
  if (typeof value === "number") return exactNumber(value);
  const text = valueText(value);
  if (time && typeof value === "string") {
    return (
      <time dateTime={value} title={value} className="whitespace-nowrap">
        {writtenTime(value, time)}
      </time>
    );
  }
  return (
    <span
      title={text.length > 40 ? text : undefined}
      className={`block max-w-96 truncate ${typeof value === "object" ? "font-mono text-xs" : ""}`}
    >
      {text}
    </span>
  );
}

const TIME = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}:\d{2})(?:\.0+)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;
const MIDNIGHT = "00:00:00";

/// Days, as of `toStartOfDay`, need no time of day.
function timeShape(values: readonly unknown[]): "date" | "second" {
  const isDay = (value: unknown) =>
    typeof value !== "string" || (TIME.exec(value)?.[2] ?? MIDNIGHT) === MIDNIGHT;
  return values.every(isDay) ? "date" : "second";
}

/// A time in the zone that the answer writes it in. One with parts of a second stays as it is.
function writtenTime(value: string, shape: "date" | "second"): string {
  const [, day, clock = MIDNIGHT] = TIME.exec(value) ?? [];
  const at = new Date(`${day}T${clock}Z`);
  if (Number.isNaN(at.getTime())) return value;
  return shape === "date"
    ? at.toLocaleDateString(undefined, { dateStyle: "medium", timeZone: "UTC" })
    : dateTime(at, "UTC");
}

/// All digits: a query's numbers may be ids or shares.
function exactNumber(value: number): string {
  return Number.isInteger(value) && Math.abs(value) >= 10_000 ? exact(value) : String(value);
}
