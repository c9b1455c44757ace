import { CalendarDays } from "lucide-react";
import { Suspense, useState } from "react";
import { lazy } from "@/api/lazy";
import { Button, cx, Popover, Skeleton } from "@/ui";
import { PRESETS, rangeLabel } from "./ranges";

const RangeFields = lazy(async () => ({
  default: (await import("./RangeFields")).RangeFields,
}));

export interface RangeControlProps {
  from: string | undefined;
  to: string | undefined;
  timeZone: string;
  onChange: (from: string | undefined, to: string | undefined) => void;
}

/// A range by presets, by text or by dates, with the zone that it is in.
export function RangeControl({ from, to, timeZone, onChange }: RangeControlProps) {
  const [open, setOpen] = useState(false);
  const choose = (nextFrom: string | undefined, nextTo?: string) => {
    onChange(nextFrom, nextTo);
    setOpen(false);
  };
  return (
    <Popover
      title="Range"
      hideTitle
      open={open}
      onOpenChange={setOpen}
      className="w-84"
      trigger={
        <Button icon={<CalendarDays aria-hidden />} aria-label={`Range: ${rangeLabel(from, to)}`}>
          {rangeLabel(from, to)}
        </Button>
      }
    >
      <div className="grid grid-cols-2 gap-0.5">
        <Preset
          label="Own ranges"
          chosen={!from && !to}
          onSelect={() => choose(undefined, undefined)}
        />
        {PRESETS.map((preset) => (
          <Preset
            key={preset.label}
            label={preset.label}
            chosen={preset.from === from && preset.to === to}
            onSelect={() => choose(preset.from, preset.to)}
          />
        ))}
      </div>
      <Suspense fallback={<Skeleton className="mt-3 h-30" />}>
        <RangeFields from={from} to={to} onChoose={choose} onChange={onChange} />
      </Suspense>
      <p className="mt-2 text-xs text-muted">Days are in {timeZone}.</p>
    </Popover>
  );
}

function Preset({
  label,
  chosen,
  onSelect,
}: {
  label: string;
  chosen: boolean;
  onSelect: () => void;
}) {
  return (
    <button
      type="button"
      aria-pressed={chosen}
      onClick={onSelect}
      className={cx(
        "h-7 rounded px-2 text-left",
        chosen ? "bg-accent-soft font-medium text-accent-text" : "hover:bg-hover",
      )}
    >
      {label}
    </button>
  );
}
