import { cx } from "@/ui";
import { percent } from "@/ui/format";

export interface MeterProps {
  label: string;
  value: number;
  max: number;
  /// As in "1.2 GB of 10 GB".
  text: string;
  /// Shares from which it is coloured as a warning and as an alarm.
  warnFrom?: number;
  alarmFrom?: number;
}

/// How much of a bound is used.
export function Meter({ label, value, max, text, warnFrom = 0.8, alarmFrom = 0.95 }: MeterProps) {
  const share = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0;
  const tone = share >= alarmFrom ? "bg-danger" : share >= warnFrom ? "bg-warn" : "bg-accent";
  return (
    <div className="flex flex-col gap-1">
      <div className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="font-medium">{label}</span>
        <span className="text-muted tabular-nums">
          {text} ({percent(share)})
        </span>
      </div>
      {/* Browsers draw meters each in their own way. */}
      <meter className="sr-only" aria-label={label} min={0} max={1} value={share}>
        {text}
      </meter>
      <div
        aria-hidden="true"
        className="h-2 overflow-hidden rounded-full border border-line bg-sunken"
      >
        <div className={cx("h-full", tone)} style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}
