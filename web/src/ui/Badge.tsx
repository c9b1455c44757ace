import { X } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./cx";

export type Tone = "neutral" | "accent" | "warn" | "danger" | "info";

const TONE: Record<Tone, string> = {
  neutral: "bg-sunken text-muted",
  accent: "bg-accent-soft text-accent-text",
  warn: "bg-warn-soft text-warn",
  danger: "bg-danger-soft text-danger",
  info: "bg-info-soft text-info",
};

/// A short state or tag.
export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={cx(
        "inline-flex h-5 max-w-[min(100%,16rem)] items-center gap-1 rounded px-1.5 text-xs font-medium whitespace-nowrap [&_svg]:size-3 [&_svg]:shrink-0",
        TONE[tone],
      )}
    >
      {typeof children === "string" ? <span className="truncate">{children}</span> : children}
    </span>
  );
}

export interface ChipProps {
  children: ReactNode;
  /// What is removed, as in "Remove filter browser".
  removeLabel?: string;
  onRemove?: () => void;
  className?: string;
}

/// A removable part of a query, such as a filter or an option.
export function Chip({ children, removeLabel = "Remove", onRemove, className }: ChipProps) {
  return (
    <span
      className={cx(
        "inline-flex min-h-7 max-w-full items-center gap-1 rounded-md border bg-surface pl-2 text-[0.8125rem]",
        !onRemove && "pr-2",
        className,
      )}
    >
      <span className="min-w-0 truncate">{children}</span>
      {onRemove && (
        <button
          type="button"
          aria-label={removeLabel}
          onClick={onRemove}
          className="grid size-6 shrink-0 place-items-center rounded text-muted hover:bg-hover hover:text-text"
        >
          <X className="size-3.5" aria-hidden />
        </button>
      )}
    </span>
  );
}
