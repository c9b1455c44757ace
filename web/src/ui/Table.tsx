import {
  type ColumnDef,
  createSortedRowModel,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  sortFn_text,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp, ChevronsUpDown } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useMemo, useRef } from "react";
import { cx } from "./cx";

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic, text: sortFn_text },
});

/// More rows than these are drawn only where they are seen.
const VIRTUAL_ROWS_MIN = 100;
const ROW_PX = 37;

export interface Column<Row> {
  id: string;
  header: ReactNode;
  cell: (row: Row) => ReactNode;
  /// Makes the column sortable by this value.
  sortValue?: (row: Row) => string | number | null | undefined;
  /// How the server sorted by this column, where the header has a control of its own.
  sorted?: "ascending" | "descending";
  align?: "left" | "right";
  /// Width in pixels; without it the column takes what it needs.
  width?: number;
  className?: string;
  /// Left out on phones.
  secondary?: boolean;
}

export interface TableProps<Row> {
  /// The name of the table.
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  /// Enter or a click on a row. Give the first cell a link or a button as well.
  onOpen?: (row: Row) => void;
  selectedKey?: string | null;
  /// The last rows are in view: load more.
  onEnd?: () => void;
  /// Dims previous rows while new ones are loaded.
  stale?: boolean;
  /// A class that bounds the height, such as `max-h-96`; without it the page scrolls.
  className?: string;
  /// Shown below the rows, such as "Loading more".
  footer?: ReactNode;
}

/// A table with a sticky head and first column, sorting, keys, and virtual rows.
export function Table<Row>({
  label,
  rows,
  columns,
  rowKey,
  onOpen,
  selectedKey,
  onEnd,
  stale,
  className,
  footer,
}: TableProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const data = useMemo(() => [...rows], [rows]);
  const defs = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<typeof features, Row & object> => ({
          id: column.id,
          accessorFn: (row) => column.sortValue?.(row) ?? undefined,
          enableSorting: column.sortValue !== undefined,
          sortUndefined: "last",
        }),
      ),
    [columns],
  );
  const table = useTable({
    features,
    columns: defs,
    data: data as (Row & object)[],
    getRowId: (row) => rowKey(row),
  });
  const sorted = table.getRowModel().rows;
  const virtual = sorted.length >= VIRTUAL_ROWS_MIN;
  const virtualizer = useVirtualizer({
    count: sorted.length,
    enabled: virtual,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    onChange: (instance) => {
      const last = instance.getVirtualItems().at(-1);
      if (last && last.index >= sorted.length - 20) onEnd?.();
    },
  });
  const items = virtual ? virtualizer.getVirtualItems() : null;
  const shown = items
    ? items.map((item) => ({ row: sorted[item.index], index: item.index }))
    : sorted.map((row, index) => ({ row, index }));
  const before = items?.[0]?.start ?? 0;
  const after = items ? virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;

  const focusRow = (index: number) => {
    if (index < 0 || index >= sorted.length) return;
    if (virtual) virtualizer.scrollToIndex(index);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus(),
    );
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTableRowElement>, index: number, row: Row) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.key === "ArrowDown" || event.key === "j") focusRow(index + 1);
    else if (event.key === "ArrowUp" || event.key === "k") focusRow(index - 1);
    else if (event.key === "Home") focusRow(0);
    else if (event.key === "End") focusRow(sorted.length - 1);
    else if (event.key === "Enter") onOpen?.(row);
    else return;
    event.preventDefault();
  };

  return (
    <section
      ref={scroller}
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
      tabIndex={0}
      className={cx(
        "scroll-thin scroll-hint relative overflow-auto rounded-b-lg -outline-offset-2",
        virtual && !className && "max-h-[70dvh]",
        className,
      )}
    >
      <table
        aria-label={label}
        aria-rowcount={sorted.length + 1}
        aria-busy={stale || undefined}
        className={cx("w-full border-separate border-spacing-0 text-left", stale && "opacity-60")}
      >
        <thead>
          <tr aria-rowindex={1}>
            {table.getHeaderGroups()[0]?.headers.map((header, at) => {
              const column = columns[at];
              if (!column) return null;
              const direction = header.column.getIsSorted();
              const Icon =
                direction === "asc" ? ArrowUp : direction === "desc" ? ArrowDown : ChevronsUpDown;
              return (
                <th
                  key={column.id}
                  scope="col"
                  aria-sort={
                    direction === "asc"
                      ? "ascending"
                      : direction === "desc"
                        ? "descending"
                        : column.sorted
                  }
                  style={column.width ? { width: column.width, minWidth: column.width } : undefined}
                  className={cx(
                    "sticky top-0 z-10 h-8 border-b bg-surface px-3 text-xs font-medium whitespace-nowrap text-muted",
                    at === 0 && "left-0 z-20 pl-4",
                    column.align === "right" && "text-right",
                    column.secondary && "max-sm:hidden",
                  )}
                >
                  {column.sortValue ? (
                    <button
                      type="button"
                      onClick={header.column.getToggleSortingHandler()}
                      className={cx(
                        "-mx-1.5 inline-flex h-6 items-center gap-1 rounded px-1.5 hover:bg-hover hover:text-text",
                        column.align === "right" && "flex-row-reverse",
                      )}
                    >
                      {column.header}
                      <Icon
                        aria-hidden
                        className={cx("size-3.5", direction ? "text-text" : "opacity-50")}
                      />
                    </button>
                  ) : (
                    column.header
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {before > 0 && (
            <tr>
              <td colSpan={columns.length} style={{ height: before }} />
            </tr>
          )}
          {shown.map(({ row, index }) => {
            if (!row) return null;
            const selected = selectedKey === row.id;
            return (
              <tr
                key={row.id}
                data-index={index}
                ref={virtual ? virtualizer.measureElement : undefined}
                aria-rowindex={index + 2}
                aria-current={selected || undefined}
                tabIndex={onOpen ? (index === (shown[0]?.index ?? 0) ? 0 : -1) : undefined}
                onKeyDown={onOpen && ((event) => onKeyDown(event, index, row.original))}
                onClick={
                  onOpen &&
                  ((event) => {
                    const target = event.target as HTMLElement;
                    // Clicks in a menu or dialog of the row bubble here through its portal.
                    if (!event.currentTarget.contains(target)) return;
                    const chosen = window.getSelection()?.toString();
                    if (!chosen && !target.closest("a, button, input, label")) onOpen(row.original);
                  })
                }
                className={cx(
                  "group/row -outline-offset-2",
                  onOpen && "cursor-pointer",
                  selected ? "bg-accent-soft" : "bg-surface hover:bg-sunken",
                )}
              >
                {columns.map((column, at) => (
                  <td
                    key={column.id}
                    className={cx(
                      "h-9 border-b border-line px-3 group-last/row:border-b-0",
                      at === 0 && "sticky left-0 z-[1] bg-inherit pl-4",
                      column.align === "right" && "text-right tabular-nums",
                      column.secondary && "max-sm:hidden",
                      column.className,
                    )}
                  >
                    {column.cell(row.original)}
                  </td>
                ))}
              </tr>
            );
          })}
          {after > 0 && (
            <tr>
              <td colSpan={columns.length} style={{ height: after }} />
            </tr>
          )}
        </tbody>
      </table>
      {footer}
    </section>
  );
}
