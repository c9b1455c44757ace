import { useState } from "react";
import { Button, cx, Field, Input } from "@/ui";
import { readRange } from "./ranges";

export interface RangeFieldsProps {
  from: string | undefined;
  to: string | undefined;
  /// A whole range was chosen.
  onChoose: (from: string | undefined, to: string | undefined) => void;
  /// One end was changed.
  onChange: (from: string | undefined, to: string | undefined) => void;
}

/// A range by text or by dates.
export function RangeFields({ from, to, onChoose, onChange }: RangeFieldsProps) {
  const [text, setText] = useState("");
  const typed = text.trim() ? readRange(text) : null;
  const isDate = (value: string | undefined) => /^\d{4}-\d{2}-\d{2}/.test(value ?? "");
  return (
    <>
      <form
        className="mt-3 flex items-end gap-2 border-t pt-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed) onChoose(typed.from, typed.to);
        }}
      >
        <Field
          label="As text"
          className="flex-1"
          error={text.trim() && !typed ? "Try 14d, 6w or 2026-03-01..2026-03-09" : undefined}
        >
          <Input
            placeholder="14d"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
          />
        </Field>
        <Button type="submit" disabled={!typed} className={cx(text.trim() && !typed && "mb-5")}>
          Apply
        </Button>
      </form>
      <div className="mt-3 grid grid-cols-2 gap-2">
        <Field label="From" className="min-w-0">
          <Input
            type="date"
            value={isDate(from) ? from?.slice(0, 10) : ""}
            onChange={(event) =>
              event.currentTarget.value &&
              onChange(event.currentTarget.value, isDate(to) ? to : undefined)
            }
          />
        </Field>
        <Field label="To" className="min-w-0">
          <Input
            type="date"
            value={isDate(to) ? to?.slice(0, 10) : ""}
            onChange={(event) =>
              onChange(isDate(from) ? from : undefined, event.currentTarget.value || undefined)
            }
          />
        </Field>
      </div>
    </>
  );
}
