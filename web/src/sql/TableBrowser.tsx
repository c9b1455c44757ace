import { ChevronRight, Table2 } from "lucide-react";
import { type MouseEvent, useState } from "react";
import { cx, EmptyState, SearchInput, SkeletonRows } from "@/ui";
import { exact } from "@/ui/format";
import { readExpanded, writeExpanded } from "./localHistory";
import type { SqlColumn, SqlNames } from "./schema";

export interface TableBrowserProps {
  tables: SqlNames["tables"];
  isPending: boolean;
  /// `byPointer` tells that the next key is meant for the editor.
  onInsert: (name: string, kind: "table" | "column", byPointer: boolean) => void;
}

const ROW =
  "flex min-h-7 min-w-0 items-center gap-2 rounded-md text-left -outline-offset-2 hover:bg-hover";

/// The tables and columns that a statement can name. A click puts one at the cursor.
export function TableBrowser({ tables, isPending, onInsert }: TableBrowserProps) {
  const [text, setText] = useState("");
  const [expanded, setExpanded] = useState<readonly string[]>(readExpanded);
  const term = text.trim().toLowerCase();
  const toggle = (table: string) => {
    const next = expanded.includes(table)
      ? expanded.filter((other) => other !== table)
      : [...expanded, table];
    writeExpanded(next);
    setExpanded(next);
  };
  const found = Object.entries(tables).flatMap(([table, columns]) => {
    if (term === "" || table.toLowerCase().includes(term)) return [{ table, columns }];
    const those = columns.filter(({ name }) => name.toLowerCase().includes(term));
    return those.length > 0 ? [{ table, columns: those }] : [];
  });
  if (isPending) return <SkeletonRows rows={6} label="Loading tables" />;
  if (Object.keys(tables).length === 0) {
    return (
      <EmptyState title="No tables to show" className="py-6">
        This server does not list its tables. Statements run all the same.
      </EmptyState>
    );
  }
  const insert = (name: string, kind: "table" | "column") => (event: MouseEvent) =>
    onInsert(name, kind, event.detail > 0);
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-2">
      <SearchInput
        label="Search tables and columns"
        placeholder="Table or column"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {found.length === 0 && <p className="px-1 py-2 text-muted">Nothing has this name.</p>}
      <ul aria-label="Tables" className="scroll-thin -mx-1 min-h-0 flex-1 overflow-y-auto px-1">
        {found.map(({ table, columns }) => {
          const open = expanded.includes(table) || (term !== "" && !table.includes(term));
          return (
            <li key={table}>
              <div className="flex items-center">
                <button
                  type="button"
                  aria-expanded={open}
                  aria-label={`Columns of ${table}`}
                  onClick={() => toggle(table)}
                  className={cx(ROW, "w-7 shrink-0 justify-center text-muted")}
                >
                  <ChevronRight
                    aria-hidden
                    className={cx("size-4 transition-transform", open && "rotate-90")}
                  />
                </button>
                <button
                  type="button"
                  title={`Put ${table} at the cursor`}
                  onClick={insert(table, "table")}
                  className={cx(ROW, "flex-1 px-1 font-medium")}
                >
                  <Table2 aria-hidden className="size-4 shrink-0 text-muted" />
                  <span className="truncate">{table}</span>
                  <span aria-hidden className="ml-auto text-xs font-normal text-muted">
                    {exact(columns.length)}
                  </span>
                </button>
              </div>
              {open && (
                <ul aria-label={table} className="mb-1 ml-3.5 border-l pl-1.5">
                  {columns.map((column) => (
                    <li key={column.name} className="flex">
                      <ColumnButton column={column} onClick={insert(written(column), "column")} />
                    </li>
                  ))}
                </ul>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function written({ name, joins }: SqlColumn): string {
  return joins ? `${name}.` : name;
}

interface ColumnButtonProps {
  column: SqlColumn;
  onClick: (event: MouseEvent) => void;
}

function ColumnButton({ column: { name, type }, onClick }: ColumnButtonProps) {
  return (
    <button
      type="button"
      title={`${name} ${type}`}
      onClick={onClick}
      className={cx(ROW, "flex-1 px-1.5 text-[0.8125rem]")}
    >
      <span className="max-w-[80%] shrink-0 truncate">{name}</span>
      <span className="min-w-0 flex-1 truncate text-right text-xs text-muted">{type}</span>
    </button>
  );
}
