import { useId } from "react";
import { Button, Field, Textarea } from "@/ui";
import { isRedacted } from "../model/draft";
import { payloadProblem } from "../model/problems";

export interface PayloadProps {
  label: string;
  value: unknown;
  onChange: (payload: string | undefined) => void;
  disabled: boolean;
  hideLabel?: boolean;
}

/// Text that stands for a payload: JSON is stored as a string.
function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/// A payload, checked as one types. An encrypted one is never shown again; it can be replaced.
export function Payload({ label, value, onChange, disabled, hideLabel }: PayloadProps) {
  const id = useId();
  if (isRedacted(value)) {
    return (
      <div className="flex flex-wrap items-center gap-2">
        {!hideLabel && <span className="text-[0.8125rem] font-medium">{label}</span>}
        <span className="text-muted">Encrypted; only personal API keys read it.</span>
        {!disabled && (
          <Button size="sm" onClick={() => onChange("")}>
            Replace
          </Button>
        )}
      </div>
    );
  }
  const text = textOf(value);
  const problem = payloadProblem(text);
  const formatted = pretty(text);
  return (
    <div className="relative">
      <Field label={label} hideLabel={hideLabel} error={problem}>
        <Textarea
          id={id}
          rows={text.includes("\n") ? 6 : 2}
          spellCheck={false}
          className="font-mono text-xs"
          placeholder='{"color": "green"}'
          value={text}
          disabled={disabled}
          onChange={(event) => onChange(event.currentTarget.value)}
          // An empty one goes once one leaves it, not while one types another.
          onBlur={() => text === "" && onChange(undefined)}
        />
      </Field>
      {!disabled && text !== "" && !problem && formatted !== text && (
        <Button
          size="sm"
          variant="ghost"
          className="absolute top-0 right-0 h-6"
          onClick={() => onChange(formatted)}
        >
          Format
        </Button>
      )}
    </div>
  );
}
