import { X } from "lucide-react";
import type { ReactNode } from "react";
import { cx, IconButton } from "@/ui";

export interface SectionProps {
  title: string;
  hint?: ReactNode;
  actions?: ReactNode;
  /// What is wrong with this part of the query.
  error?: string | null;
  children: ReactNode;
}

/// A part of the query, such as its series.
export function Section({ title, hint, actions, error, children }: SectionProps) {
  return (
    <section className="border-b px-4 py-3 last:border-b-0">
      <header className="mb-1.5 flex min-h-6 items-center justify-between gap-2">
        <h2 className="text-[0.8125rem] font-semibold">{title}</h2>
        {actions}
      </header>
      {hint && <p className="mb-1.5 text-xs text-muted">{hint}</p>}
      {children}
      {error && (
        <p role="alert" className="mt-1.5 text-xs whitespace-pre-line text-danger">
          {error}
        </p>
      )}
    </section>
  );
}

export interface OptionRowProps {
  label: string;
  onRemove: () => void;
  disabled?: boolean;
  children?: ReactNode;
  className?: string;
}

/// An option that was added, with its control and its cross.
export function OptionRow({ label, onRemove, disabled, children, className }: OptionRowProps) {
  return (
    <fieldset
      className={cx("flex items-start gap-1 rounded-md border bg-bg py-1.5 pr-1 pl-2.5", className)}
    >
      <legend className="sr-only">{label}</legend>
      <div className="flex min-w-0 flex-1 flex-wrap items-center gap-x-1.5 gap-y-1.5">
        <span aria-hidden="true" className="py-1 text-[0.8125rem] font-medium">
          {label}
        </span>
        {children}
      </div>
      {!disabled && (
        <IconButton label={`Remove ${label.toLowerCase()}`} size="sm" onClick={onRemove}>
          <X aria-hidden />
        </IconButton>
      )}
    </fieldset>
  );
}
