import { CalendarDays } from "lucide-react";
import { Suspense, useState } from "react";
import { lazy } from "@/api/lazy";
import { Button, cx, Popover, Skeleton } from "@/ui";
import { type DateRange, PRESETS, rangeLabel } from "./range";

const RangeFields = lazy(() => import("./RangeFields").then((m) => ({ default: m.RangeFields })));

export interface RangePickerProps {
  value: DateRange | undefined;
  onChange: (range: DateRange) => void;
  timeZone: string;
  /// What no range means, and how it is chosen. Without it, no range means the last seven days.
  emptyLabel?: string;
  size?: "sm" | "md";
}

/// A range by presets, text such as `-14d`, or dates with or without times.
export function RangePicker({
  value,
  onChange,
  timeZone,
  emptyLabel,
  size = "md",
}: RangePickerProps) {
  const [open, setOpen] = useState(false);
  const current = rangeLabel(value, timeZone, emptyLabel);
  const presets = emptyLabel ? [{ label: emptyLabel, range: {} }, ...PRESETS] : PRESETS;
  const choose = (range: DateRange) => {
    setOpen(false);
    onChange(range);
  };
  return (
    <Popover
      title="Range"
      hideTitle
      open={open}
      onOpenChange={setOpen}
      className="w-[28rem]"
      trigger={
        <Button
          size={size}
          icon={<CalendarDays aria-hidden />}
          aria-label={`Range: ${current}`}
          className="max-w-full"
        >
          <span className="max-w-72 truncate">{current}</span>
        </Button>
      }
    >
      <div className="flex flex-col gap-3 sm:flex-row">
        <ul className="grid grid-cols-2 content-start gap-0.5 sm:w-36 sm:shrink-0 sm:grid-cols-1">
          {presets.map(({ label, range }) => (
            <li key={label}>
              <button
                type="button"
                aria-pressed={label === current}
                onClick={() => choose(range)}
                className={cx(
                  "h-7 w-full rounded px-2 text-left hover:bg-hover",
                  label === current && "bg-accent-soft font-medium text-accent-text",
                )}
              >
                {label}
              </button>
            </li>
          ))}
        </ul>
        <div className="flex min-w-0 flex-1 flex-col gap-3 max-sm:border-t max-sm:pt-3 sm:border-l sm:pl-3">
          <Suspense fallback={<Skeleton className="h-72" />}>
            <RangeFields value={value} timeZone={timeZone} onChange={choose} />
          </Suspense>
        </div>
      </div>
    </Popover>
  );
}
