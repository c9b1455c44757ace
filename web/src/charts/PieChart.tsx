import { cx } from "@/ui/cx";
import { exact, percent } from "@/ui/format";
import type { BarItem } from "./BarChart";
import { ChartFrame } from "./ChartFrame";
import { seriesColor } from "./palette";
import type { ChartData, ChartProps } from "./types";

export interface PieChartProps extends ChartProps {
  items: readonly BarItem[];
  onOpen?: (item: BarItem) => void;
}

export function pieTable({ items }: Pick<PieChartProps, "items">): ChartData {
  const total = items.reduce((sum, { value }) => sum + Math.max(0, value), 0);
  return {
    columns: ["", "Value", "Share"],
    rows: items.map(({ label, value }) => [
      label,
      value,
      total > 0 ? percent(value / total) : null,
    ]),
  };
}

/// The path of a ring's part, from and to a share of the whole.
function arc(from: number, to: number, outer: number, inner: number): string {
  // A full circle would begin where it ends and draw nothing.
  const end = to - from >= 1 ? from + 0.9999 : to;
  const at = (share: number, radius: number) => {
    const angle = share * 2 * Math.PI - Math.PI / 2;
    return `${(radius * Math.cos(angle)).toFixed(3)} ${(radius * Math.sin(angle)).toFixed(3)}`;
  };
  const large = end - from > 0.5 ? 1 : 0;
  return `M${at(from, outer)}A${outer} ${outer} 0 ${large} 1 ${at(end, outer)}L${at(end, inner)}A${inner} ${inner} 0 ${large} 0 ${at(from, inner)}Z`;
}

/// Shares of a whole, as a ring with a legend that has the numbers.
export function PieChart({ label, view, format = exact, className, items, onOpen }: PieChartProps) {
  const total = items.reduce((sum, { value }) => sum + Math.max(0, value), 0);
  const top = items.reduce<BarItem | null>(
    (best, item) => (best && best.value >= item.value ? best : item),
    null,
  );
  let from = 0;
  const parts = items.map((item, index) => {
    const share = total > 0 ? Math.max(0, item.value) / total : 0;
    const part = { item, share, from, color: item.color ?? seriesColor(index) };
    from += share;
    return part;
  });
  return (
    <ChartFrame
      label={label}
      summary={
        top && total > 0
          ? `${top.label} is the largest, ${percent(top.value / total)} of ${format(total)}.`
          : "No values."
      }
      data={pieTable({ items })}
      view={view}
      format={format}
      className={cx("@container", className)}
    >
      <div className="flex min-h-0 flex-1 flex-col items-center justify-center gap-4 p-3 @md:flex-row @2xl:gap-8">
        <svg
          viewBox="-52 -52 104 104"
          aria-hidden="true"
          className="aspect-square max-h-full min-h-28 w-44 shrink-0 @2xl:w-72"
        >
          {parts.map(({ item, share, from: start, color }) =>
            share > 0 ? (
              <path
                key={item.id}
                d={arc(start, start + share, 50, 30)}
                fill={color}
                stroke="var(--surface)"
                strokeWidth="1"
              />
            ) : null,
          )}
          <text
            textAnchor="middle"
            dominantBaseline="central"
            fontSize="11"
            fontWeight="600"
            fill="var(--text)"
          >
            {format(total)}
          </text>
        </svg>
        <ul
          aria-label={label}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
          tabIndex={0}
          className="scroll-thin max-h-full min-h-14 w-full max-w-xl min-w-0 overflow-y-auto -outline-offset-2"
        >
          {parts.map(({ item, share, color }) => {
            const row = (
              <>
                <span className="size-2.5 shrink-0 rounded-sm" style={{ background: color }} />
                <span className="min-w-0 flex-1 truncate">{item.label}</span>
                <span className="tabular-nums">{format(item.value)}</span>
                <span className="w-14 text-right text-muted tabular-nums">{percent(share)}</span>
              </>
            );
            const className = "flex min-h-7 w-full items-center gap-2 rounded px-2 text-left";
            return (
              <li key={item.id}>
                {onOpen ? (
                  <button
                    type="button"
                    onClick={() => onOpen(item)}
                    className={cx(className, "hover:bg-hover")}
                  >
                    {row}
                  </button>
                ) : (
                  <div className={className}>{row}</div>
                )}
              </li>
            );
          })}
        </ul>
      </div>
    </ChartFrame>
  );
}
