import { ChartFrame, usePointKeys } from "@/charts/ChartFrame";
import { seriesColor } from "@/charts/palette";
import type { TimeSeries } from "@/charts/TimeChart";
import type { ChartData, ChartProps } from "@/charts/types";
import { cx } from "@/ui/cx";
import { compact, exact } from "@/ui/format";

export interface CategoryChartProps extends ChartProps {
  labels: readonly string[];
  series: readonly TimeSeries[];
  hiddenIds?: ReadonlySet<string>;
  onOpenPoint?: (series: TimeSeries, index: number) => void;
  thumbnail?: boolean;
}

export function categoryTable({
  labels,
  series,
}: Pick<CategoryChartProps, "labels" | "series">): ChartData {
  return {
    columns: ["Active in", ...series.map(({ label }) => label)],
    rows: labels.map((label, at) => [label, ...series.map(({ values }) => values[at] ?? null)]),
  };
}

const NUMBERS_MAX = 16;

/// Upright bars in groups, one group a category: how many were active in one day, in two, and so on.
export function CategoryChart({
  label,
  view,
  format = exact,
  className,
  labels,
  series,
  hiddenIds,
  onOpenPoint,
  thumbnail = false,
}: CategoryChartProps) {
  const shown = series.filter(({ id }) => !hiddenIds?.has(id));
  const max = Math.max(1, ...shown.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const { chartProps, announcement, point } = usePointKeys({
    label,
    columns: labels.length,
    rows: shown.length,
    read: ({ x, y }) => `${shown[y]?.label}, ${labels[x]}: ${format(shown[y]?.values[x] ?? 0)}`,
    onOpen: ({ x, y }) => {
      const item = shown[y];
      if (item) onOpenPoint?.(item, x);
    },
  });
  const first = shown[0];
  const total = first?.values.reduce<number>((sum, value) => sum + (value ?? 0), 0) ?? 0;
  const step = Math.ceil(labels.length / NUMBERS_MAX);
  return (
    <ChartFrame
      label={label}
      summary={
        first
          ? `${first.label}: ${format(first.values[0] ?? 0)} in ${labels[0]}, of ${format(total)} in all.`
          : "No values."
      }
      data={categoryTable({ labels, series })}
      view={view}
      format={format}
      className={cx("@container", className)}
    >
      <div
        {...(thumbnail ? { "aria-hidden": true } : chartProps)}
        className="flex min-h-0 flex-1 items-stretch gap-px rounded p-1 -outline-offset-2"
      >
        {labels.map((name, at) => (
          <div key={name} className="flex min-w-0 flex-1 flex-col">
            <div className="flex min-h-0 flex-1 items-end justify-center gap-px border-b px-[8%]">
              {shown.map((item, index) => {
                const value = item.values[at] ?? 0;
                const text = `${item.label}, ${name}: ${format(value)}`;
                const focused = point?.x === at && point.y === index;
                return (
                  // biome-ignore lint/a11y/useKeyWithClickEvents: the chart itself takes arrow keys and Enter.
                  // biome-ignore lint/a11y/noStaticElementInteractions: as above.
                  <div
                    key={item.id}
                    title={thumbnail ? undefined : text}
                    onClick={onOpenPoint && (() => onOpenPoint(item, at))}
                    className={cx(
                      "flex h-full max-w-12 min-w-0 flex-1 flex-col justify-end",
                      onOpenPoint && "cursor-pointer hover:bg-hover",
                      focused && "outline-2 outline-text",
                    )}
                  >
                    {!thumbnail && shown.length === 1 && labels.length <= NUMBERS_MAX && (
                      <span className="hidden text-center text-xs tabular-nums @md:block">
                        {compact(value)}
                      </span>
                    )}
                    <span
                      className={cx("w-full rounded-t-sm", item.compare && "opacity-45")}
                      style={{
                        height: `${(value / max) * 88}%`,
                        minHeight: value > 0 ? 2 : 0,
                        background: item.color ?? seriesColor(index),
                      }}
                    />
                  </div>
                );
              })}
            </div>
            {!thumbnail && (
              <span className="h-5 pt-1 text-center text-xs whitespace-nowrap text-muted">
                {at % step === 0 ? Number.parseInt(name, 10) || name : ""}
              </span>
            )}
          </div>
        ))}
      </div>
      {!thumbnail && (
        <p aria-hidden="true" className="pt-1 text-center text-xs text-muted">
          {(labels[1] ?? labels[0] ?? "").replace(/^\d+ /, "")} active
        </p>
      )}
      {announcement}
    </ChartFrame>
  );
}
