import { compact, exact } from "@/ui/format";
import { ChartFrame, usePointKeys } from "./ChartFrame";
import { seriesColor } from "./palette";
import type { ChartProps } from "./types";

export interface HistogramChartProps extends ChartProps {
  /// `from` is the start of a bin in short, for the axis.
  bins: readonly { label: string; from: string; value: number }[];
  /// The name of the bins, as in "Time to convert".
  binLabel: string;
}

/// Upright bars over ranges of a value, such as the time to convert.
export function HistogramChart({
  label,
  view,
  format = exact,
  className,
  bins,
  binLabel,
}: HistogramChartProps) {
  const max = Math.max(1, ...bins.map(({ value }) => value));
  const top = bins.reduce(
    (best, bin) => (bin.value > best.value ? bin : best),
    bins[0] ?? { label: "", from: "", value: 0 },
  );
  const { chartProps, announcement, point } = usePointKeys({
    label,
    columns: bins.length,
    rows: 1,
    read: ({ x }) => `${bins[x]?.label}: ${format(bins[x]?.value ?? 0)}`,
  });
  return (
    <ChartFrame
      label={label}
      summary={
        bins.length > 0 ? `Most are at ${top.label}, with ${format(top.value)}.` : "No values."
      }
      data={{ columns: [binLabel, "Count"], rows: bins.map((bin) => [bin.label, bin.value]) }}
      view={view}
      format={format}
      className={className}
    >
      <div {...chartProps} className="scroll-thin flex min-h-48 flex-1 gap-1 overflow-x-auto p-2">
        {bins.map((bin, at) => (
          <div
            key={bin.label}
            title={`${bin.label}: ${format(bin.value)}`}
            className="flex min-w-10 flex-1 flex-col gap-1 text-center text-xs"
          >
            <span style={{ flexGrow: 1 - bin.value / max }} />
            <span className="tabular-nums">{compact(bin.value)}</span>
            <span
              className={point?.x === at ? "rounded-t-sm outline-2 outline-text" : "rounded-t-sm"}
              style={{
                flexGrow: bin.value / max,
                minHeight: 2,
                background: seriesColor(0),
              }}
            />
            <span className="truncate text-left text-muted">{bin.from}</span>
          </div>
        ))}
      </div>
      {announcement}
    </ChartFrame>
  );
}
