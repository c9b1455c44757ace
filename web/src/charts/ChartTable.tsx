import { cx } from "@/ui/cx";
import { exact } from "@/ui/format";
import type { ChartData } from "./types";

export interface ChartTableProps {
  label: string;
  data: ChartData;
  format?: (value: number) => string;
  className?: string;
}

/// A share or a time that is already written out, as in "12.5%" or "2 min 5 s".
const QUANTITY = /^[−-]?[\d.,]+(?:%|\s(?:d|h|min|s|ms)\b)/;

/// The table twin of a chart.
export function ChartTable({ label, data, format = exact, className }: ChartTableProps) {
  const numeric = data.columns.map(
    (_, at) =>
      at > 0 &&
      data.rows.some(({ [at]: cell }) =>
        typeof cell === "string" ? QUANTITY.test(cell) : typeof cell === "number",
      ),
  );
  return (
    <section
      aria-label={`${label}: table`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
      tabIndex={0}
      className={cx("scroll-thin max-h-full overflow-auto -outline-offset-2", className)}
    >
      <table className="w-full border-separate border-spacing-0 text-left">
        <caption className="sr-only">{label}</caption>
        <thead>
          <tr>
            {data.columns.map((column, at) => (
              <th
                // biome-ignore lint/suspicious/noArrayIndexKey: two columns may have one name.
                key={at}
                scope="col"
                className={cx(
                  "sticky top-0 z-10 h-8 border-b bg-surface px-3 text-xs font-medium whitespace-nowrap text-muted",
                  at === 0 && "left-0 z-20",
                  numeric[at] && "text-right",
                )}
              >
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.rows.map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity.
            <tr key={index}>
              {row.map((cell, at) => {
                const Cell = at === 0 ? "th" : "td";
                return (
                  <Cell
                    // biome-ignore lint/suspicious/noArrayIndexKey: a cell is its column.
                    key={at}
                    scope={at === 0 ? "row" : undefined}
                    className={cx(
                      "h-8 border-b px-3 font-normal whitespace-nowrap",
                      at === 0 && "sticky left-0 z-[1] max-w-64 truncate bg-surface",
                      numeric[at] && "text-right tabular-nums",
                    )}
                  >
                    {typeof cell === "number" ? format(cell) : (cell ?? "–")}
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
