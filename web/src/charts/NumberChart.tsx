import { ArrowDown, ArrowUp } from "lucide-react";
import { cx } from "@/ui/cx";
import { exact, percent } from "@/ui/format";
import { ChartFrame } from "./ChartFrame";
import type { ChartProps } from "./types";

export interface NumberChartProps extends ChartProps {
  value: number | null;
  /// The value of the range before.
  compare?: number | null;
  onOpen?: () => void;
}

/// One large number.
export function NumberChart({
  label,
  view,
  format = exact,
  className,
  value,
  compare,
  onOpen,
}: NumberChartProps) {
  const text = value === null ? "–" : format(value);
  const change = value !== null && compare ? (value - compare) / Math.abs(compare) : null;
  const changeText =
    change === null
      ? ""
      : `${percent(Math.abs(change))} ${change < 0 ? "less" : "more"} than before`;
  const Arrow = change !== null && change < 0 ? ArrowDown : ArrowUp;
  // As large as the box allows: a tile, a card of a list or the whole page.
  const number = (
    <span className="text-[clamp(1.75rem,13cqi,3rem)] leading-tight font-semibold tracking-tight whitespace-nowrap tabular-nums">
      {text}
    </span>
  );
  return (
    <ChartFrame
      label={label}
      summary={`${text}${changeText ? `, ${changeText}` : ""}.`}
      data={{
        columns: ["", "Value"],
        rows: [[label, value], ...(compare === undefined ? [] : [["Before", compare]])],
      }}
      view={view}
      format={format}
      className={cx("@container", className)}
    >
      <div className="flex min-h-0 flex-1 flex-col items-center justify-center gap-1 p-1 text-center">
        {onOpen ? (
          <button type="button" onClick={onOpen} className="rounded-md px-2 hover:bg-hover">
            {number}
          </button>
        ) : (
          number
        )}
        {change !== null && (
          <span className="flex items-center gap-1 text-muted">
            <Arrow className="size-4 shrink-0" aria-hidden />
            {changeText}
          </span>
        )}
      </div>
    </ChartFrame>
  );
}
