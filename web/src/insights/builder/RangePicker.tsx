import { CalendarDays } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Button, cx, Field, Input, Popover } from "@/ui";
import type { DateRange } from "../queries";
import { PRESETS, parseRange, rangeLabel } from "../range";

export interface RangePickerProps {
  value: DateRange | undefined;
  onChange: (range: DateRange) => void;
  timeZone: string;
  disabled?: boolean;
  size?: "sm" | "md";
  /// What no range means, where it is not the last seven days.
  emptyLabel?: string;
}

function isoDate(text: string | null | undefined): string {
  return /^\d{4}-\d{2}-\d{2}/.test(text ?? "") ? (text ?? "").slice(0, 10) : "";
}

/// A range by presets, text such as `-14d`, or dates.
export function RangePicker({
  value,
  onChange,
  timeZone,
  disabled,
  size = "md",
  emptyLabel,
}: RangePickerProps) {
  const [open, setOpen] = useState(false);
  const label = emptyLabel && !value?.date_from && !value?.date_to ? emptyLabel : rangeLabel(value);
  return (
    <Popover
      title="Range"
      hideTitle
      open={open}
      onOpenChange={setOpen}
      className="w-[27rem]"
      trigger={
        <Button
          size={size}
          disabled={disabled}
          icon={<CalendarDays aria-hidden />}
          aria-label={`Range: ${label}`}
        >
          <span className="max-w-64 truncate">{label}</span>
        </Button>
      }
    >
      {open && (
        <RangeForm
          value={value}
          timeZone={timeZone}
          onChange={(range) => {
            setOpen(false);
            onChange(range);
          }}
        />
      )}
    </Popover>
  );
}

function RangeForm({ value, onChange, timeZone }: Omit<RangePickerProps, "disabled">) {
  const [text, setText] = useState("");
  const [from, setFrom] = useState(isoDate(value?.date_from));
  const [to, setTo] = useState(isoDate(value?.date_to));
  const typed = text.trim() ? parseRange(text) : null;
  const current = rangeLabel(value);
  const submitText = (event: FormEvent) => {
    event.preventDefault();
    if (typed) onChange(typed);
  };
  const submitDates = (event: FormEvent) => {
    event.preventDefault();
    onChange({ date_from: from, ...(to ? { date_to: to } : {}) });
  };
  const wrongOrder = from !== "" && to !== "" && from > to;
  return (
    <div className="flex flex-col gap-3 sm:flex-row">
      <ul className="grid grid-cols-2 content-start gap-0.5 sm:w-36 sm:grid-cols-1">
        {PRESETS.map(({ label, range }) => (
          <li key={label}>
            <button
              type="button"
              aria-pressed={label === current}
              onClick={() => onChange(range)}
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
      <div className="flex min-w-0 flex-1 flex-col gap-3 sm:border-l sm:pl-3">
        <form onSubmit={submitText}>
          <Field
            label="As text"
            hint={typed ? rangeLabel(typed) : "-14d, last 3 weeks, 2026-11-01 to 2026-11-14"}
            error={text.trim() && !typed ? "This is no range." : null}
          >
            <Input
              value={text}
              placeholder={value?.date_from ?? "-14d"}
              onChange={(event) => setText(event.currentTarget.value)}
            />
          </Field>
        </form>
        <form className="flex flex-col gap-2" onSubmit={submitDates}>
          <Field label="From">
            <Input
              type="date"
              required
              value={from}
              onChange={(event) => setFrom(event.currentTarget.value)}
            />
          </Field>
          <Field
            label="To"
            hint="Empty: until now"
            error={wrongOrder ? "This is before the start." : null}
          >
            <Input type="date" value={to} onChange={(event) => setTo(event.currentTarget.value)} />
          </Field>
          <Button type="submit" variant="primary" disabled={!from || wrongOrder}>
            Apply dates
          </Button>
        </form>
        <p className="text-xs text-muted">Days are in {timeZone}.</p>
      </div>
    </div>
  );
}
