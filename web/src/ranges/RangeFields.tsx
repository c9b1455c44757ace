import { useState } from "react";
import { Button, Field, Input } from "@/ui";
import { inputsOf, parseRange, rangeOfDates } from "./parse";
import type { RangePickerProps } from "./RangePicker";
import { rangeLabel } from "./range";

export type RangeFieldsProps = Pick<RangePickerProps, "value" | "onChange" | "timeZone">;

/// A range by text or by dates.
export function RangeFields(props: RangeFieldsProps) {
  return (
    <>
      <TextForm {...props} />
      <DatesForm {...props} />
      <p className="text-xs text-muted">Days and times are in {props.timeZone}.</p>
    </>
  );
}

function TextForm({ value, onChange, timeZone }: RangeFieldsProps) {
  const [text, setText] = useState("");
  const typed = parseRange(text);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typed) onChange(typed);
      }}
    >
      <Field
        label="As text"
        hint={typed ? rangeLabel(typed, timeZone) : "-14d, last 3 weeks, 2026-11-01 to 2026-11-14"}
        error={text.trim() && !typed ? "This is no range." : null}
      >
        <Input
          value={text}
          placeholder={value?.date_from || "-14d"}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </Field>
    </form>
  );
}

function DatesForm({ value, onChange, timeZone }: RangeFieldsProps) {
  const [from, setFrom] = useState(() => inputsOf(value?.date_from, timeZone));
  const [to, setTo] = useState(() => inputsOf(value?.date_to, timeZone));
  const text = ({ date, time }: End) => (date && time ? `${date}T${time}` : date);
  const isEmpty = !from.date && !to.date;
  const isReversed =
    from.date !== "" &&
    to.date !== "" &&
    `${from.date}T${from.time || "00:00"}` > `${to.date}T${to.time || "24:00"}`;
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(rangeOfDates(text(from), text(to)));
      }}
    >
      <EndFields label="From" end={from} onChange={setFrom} hint="Empty: from the first event" />
      <EndFields
        label="To"
        end={to}
        onChange={setTo}
        hint="Empty: until now"
        error={isReversed ? "This is before the start." : null}
      />
      <Button type="submit" variant="primary" disabled={isEmpty || isReversed}>
        Apply dates
      </Button>
    </form>
  );
}

type End = ReturnType<typeof inputsOf>;

/// A date, and a time for those who want one.
function EndFields({
  label,
  end,
  onChange,
  hint,
  error,
}: {
  label: string;
  end: End;
  onChange: (end: End) => void;
  hint: string;
  error?: string | null;
}) {
  return (
    <div className="flex items-start gap-2">
      <Field label={label} hint={hint} error={error} className="min-w-0 flex-1">
        <Input
          type="date"
          value={end.date}
          onChange={(event) => onChange({ ...end, date: event.currentTarget.value })}
        />
      </Field>
      <Field
        label={
          <>
            <span className="sr-only">{label}: </span>Time
          </>
        }
        className="w-26 shrink-0"
      >
        <Input
          type="time"
          disabled={!end.date}
          value={end.time}
          onChange={(event) => onChange({ ...end, time: event.currentTarget.value })}
        />
      </Field>
    </div>
  );
}
