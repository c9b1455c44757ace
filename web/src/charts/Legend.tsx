import { cx } from "@/ui/cx";
import { seriesColor } from "./palette";
import type { TimeSeries } from "./TimeChart";

export interface LegendProps {
  series: readonly Pick<TimeSeries, "id" | "label" | "color" | "compare">[];
  hiddenIds: ReadonlySet<string>;
  onToggle?: (id: string) => void;
  className?: string;
}

/// Names the series by colour and hides them; a hidden one is also struck through.
export function Legend({ series, hiddenIds, onToggle, className }: LegendProps) {
  return (
    <ul className={cx("flex flex-wrap gap-x-1 gap-y-0.5 text-[0.8125rem]", className)}>
      {series.map(({ id, label, color, compare }, index) => {
        const hidden = hiddenIds.has(id);
        const body = (
          <>
            <span
              className={cx("size-2.5 shrink-0 rounded-sm", (hidden || compare) && "opacity-45")}
              style={{ background: color ?? seriesColor(index) }}
            />
            <span
              className={cx("max-w-72 truncate", hidden && "text-muted line-through")}
              title={label}
            >
              {label}
            </span>
          </>
        );
        const className = "flex min-h-6 max-w-full items-center gap-1.5 rounded px-1.5";
        return (
          <li key={id} className="min-w-0">
            {onToggle ? (
              <button
                type="button"
                aria-pressed={!hidden}
                onClick={() => onToggle(id)}
                className={cx(className, "hover:bg-hover")}
              >
                {body}
              </button>
            ) : (
              <span className={className}>{body}</span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
