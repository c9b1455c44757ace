import { Field as Base } from "@base-ui/react/field";
import { type ComponentProps, type ReactNode, useId } from "react";
import { cx } from "./cx";

export interface FieldProps {
  label: ReactNode;
  /// Shown to screen readers only.
  hideLabel?: boolean;
  hint?: ReactNode;
  error?: string | null;
  children: ReactNode;
  className?: string;
}

/// A label, its control, a hint and an error, tied together.
export function Field({ label, hideLabel, hint, error, children, className }: FieldProps) {
  return (
    <Base.Root invalid={Boolean(error)} className={cx("flex flex-col gap-1", className)}>
      <Base.Label className={hideLabel ? "sr-only" : "text-[0.8125rem] font-medium"}>
        {label}
      </Base.Label>
      {children}
      {hint && <Base.Description className="text-xs text-muted">{hint}</Base.Description>}
      {error && (
        <Base.Error match className="text-xs text-danger">
          {error}
        </Base.Error>
      )}
    </Base.Root>
  );
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return (
    <Base.Control
      className={cx("field-box h-8", className)}
      {...(rest as ComponentProps<typeof Base.Control>)}
    />
  );
}

export function Textarea({ className, ...rest }: ComponentProps<"textarea">) {
  return (
    <Base.Control
      render={<textarea rows={3} {...rest} className={cx("field-box py-1.5", className)} />}
    />
  );
}

export interface SearchInputProps extends Omit<ComponentProps<"input">, "type"> {
  label: string;
}

/// A search box with a name but no visible label.
export function SearchInput({ label, placeholder = label, className, ...rest }: SearchInputProps) {
  const id = useId();
  return (
    <div className={cx("relative", className)}>
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <svg
        aria-hidden="true"
        viewBox="0 0 24 24"
        className="pointer-events-none absolute top-2 left-2.5 size-4 fill-none stroke-current stroke-2 text-faint"
      >
        <circle cx="11" cy="11" r="7" />
        <path d="m20 20-4-4" />
      </svg>
      <input
        id={id}
        type="search"
        placeholder={placeholder}
        className="field-box h-8 pl-8"
        {...rest}
      />
    </div>
  );
}
