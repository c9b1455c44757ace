import { CalendarDays } from "lucide-react";
import { useState } from "react";
import { Button, cx, Field, Input, Popover } from "@/ui";
import { dateTime } from "@/ui/format";

export interface Range {
  after?: string;
  before?: string;
}

export interface TimeRangeProps {
  value: Range;
  onChange: (range: Range) => void;
  timeZone: string;
}

const PRESETS: readonly { after?: string; label: string }[] = [
  { label: "All time" },
  { after: "-1h", label: "Last hour" },
  { after: "-24h", label: "Last 24 hours" },
  { after: "-7d", label: "Last 7 days" },
  { after: "-30d", label: "Last 30 days" },
  { after: "-90d", label: "Last 90 days" },
];

const LOCAL = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?$/;

/// A bound in words. One without an offset is in the project's zone already.
function boundText(bound: string, timeZone: string): string {
  if (LOCAL.test(bound)) return bound.replace("T", " ");
  const at = new Date(bound);
  return /^\d/.test(bound) && !Number.isNaN(at.getTime()) ? dateTime(at, timeZone) : bound;
}

export function rangeText({ after, before }: Range, timeZone: string): string {
  const preset = PRESETS.find((candidate) => !before && candidate.after === after);
  if (preset) return preset.label;
  const from = after && boundText(after, timeZone);
  const to = before && boundText(before, timeZone);
  if (from && to) return `${from} – ${to}`;
  return from ? `Since ${from}` : `Until ${to}`;
}

/// When the events happened: a preset, or two bounds in the project's zone.
export function TimeRange({ value, onChange, timeZone }: TimeRangeProps) {
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState<Range>({});
  const toInput = (bound?: string) => (bound && LOCAL.test(bound) ? bound : "");
  const openChanged = (next: boolean) => {
    setOpen(next);
    if (next) setDraft({ after: toInput(value.after), before: toInput(value.before) });
  };
  const choose = (range: Range) => {
    onChange(range);
    setOpen(false);
  };
  return (
    <Popover
      title="Time range"
      open={open}
      onOpenChange={openChanged}
      className="w-72"
      trigger={
        <Button icon={<CalendarDays aria-hidden />} className="max-w-full">
          <span className="truncate">{rangeText(value, timeZone)}</span>
        </Button>
      }
    >
      <div className="grid grid-cols-2 gap-0.5">
        {PRESETS.map((preset) => {
          const chosen = preset.after === value.after && !value.before;
          return (
            <button
              key={preset.label}
              type="button"
              aria-pressed={chosen}
              className={cx(
                "h-7 rounded px-2 text-left",
                chosen ? "bg-accent-soft font-medium text-accent-text" : "hover:bg-hover",
              )}
              onClick={() => choose({ after: preset.after })}
            >
              {preset.label}
            </button>
          );
        })}
      </div>
      <form
        className="mt-3 flex flex-col gap-2 border-t pt-3"
        onSubmit={(event) => {
          event.preventDefault();
          choose({ after: draft.after || undefined, before: draft.before || undefined });
        }}
      >
        <Field label="From">
          <Input
            type="datetime-local"
            step={1}
            value={draft.after ?? ""}
            onChange={(event) => setDraft({ ...draft, after: event.currentTarget.value })}
          />
        </Field>
        <Field label="To">
          <Input
            type="datetime-local"
            step={1}
            value={draft.before ?? ""}
            onChange={(event) => setDraft({ ...draft, before: event.currentTarget.value })}
          />
        </Field>
        <div className="flex items-center justify-between gap-2">
          <span className="text-xs text-muted">Times are in {timeZone}.</span>
          <Button type="submit" size="sm">
            Apply
          </Button>
        </div>
      </form>
    </Popover>
  );
}
