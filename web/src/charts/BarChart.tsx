import { cx } from "@/ui/cx";
import { exact, percent } from "@/ui/format";
import { ChartFrame } from "./ChartFrame";
import { seriesColor } from "./palette";
import type { ChartData, ChartProps } from "./types";

export interface BarItem {
  id: string;
  label: string;
  value: number;
  /// The value of the range before.
  compare?: number;
  color?: string;
}

export interface BarChartProps extends ChartProps {
  items: readonly BarItem[];
  onOpen?: (item: BarItem) => void;
  /// With less space between the bars, for lists.
  dense?: boolean;
}

export function barTable({ items }: Pick<BarChartProps, "items">): ChartData {
  const compares = items.some(({ compare }) => compare !== undefined);
  return {
    columns: ["", "Value", ...(compares ? ["Range before"] : [])],
    rows: items.map(({ label, value, compare }) => [
      label,
      value,
      ...(compares ? [compare ?? null] : []),
    ]),
  };
}

/// Horizontal bars, one a value.
export function BarChart({
  label,
  view,
  format = exact,
  className,
  items,
  onOpen,
  dense = false,
}: BarChartProps) {
  const max = Math.max(0, ...items.map(({ value, compare }) => Math.max(value, compare ?? 0)));
  const total = items.reduce((sum, { value }) => sum + value, 0);
  const top = items.reduce<BarItem | null>(
    (best, item) => (best && best.value >= item.value ? best : item),
    null,
  );
  const summary = top
    ? `${top.label} is highest with ${format(top.value)}${total > 0 ? `, ${percent(top.value / total)} of all` : ""}.`
    : "No values.";
  return (
    <ChartFrame
      label={label}
      summary={summary}
      data={barTable({ items })}
      view={view}
      format={format}
      className={className}
    >
      <ul
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin flex min-h-0 flex-col gap-1 overflow-y-auto p-1 -outline-offset-2"
      >
        {items.map((item, index) => {
          const content = (
            <>
              <span className="flex min-w-0 items-baseline justify-between gap-3">
                <span className="truncate">{item.label}</span>
                <span className="font-medium whitespace-nowrap tabular-nums">
                  {format(item.value)}
                  {item.compare !== undefined && (
                    <span className="ml-2 font-normal text-muted">
                      before {format(item.compare)}
                    </span>
                  )}
                </span>
              </span>
              <span className="mt-1 block h-2 rounded-sm bg-sunken">
                <span
                  className="block h-2 rounded-sm"
                  style={{
                    width: `${max > 0 ? (Math.max(0, item.value) / max) * 100 : 0}%`,
                    background: item.color ?? seriesColor(index),
                  }}
                />
              </span>
              {item.compare !== undefined && (
                <span
                  className="mt-0.5 block h-1 rounded-sm opacity-45"
                  style={{
                    width: `${max > 0 ? (Math.max(0, item.compare) / max) * 100 : 0}%`,
                    background: item.color ?? seriesColor(index),
                  }}
                />
              )}
            </>
          );
          const className = cx(
            "block w-full rounded-md text-left -outline-offset-2",
            dense ? "px-1" : "px-2 py-1.5",
          );
          return (
            <li key={item.id}>
              {onOpen ? (
                <button
                  type="button"
                  className={cx(className, "hover:bg-hover")}
                  onClick={() => onOpen(item)}
                >
                  {content}
                </button>
              ) : (
                <div className={className}>{content}</div>
              )}
            </li>
          );
        })}
      </ul>
    </ChartFrame>
  );
}
