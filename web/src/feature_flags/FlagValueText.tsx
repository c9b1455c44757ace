import { cx } from "@/ui";

/// A value as code gets it.
export function FlagValueText({ value, className }: { value: string; className?: string }) {
  const tone = value === "false" ? "bg-sunken text-muted" : "bg-accent-soft text-accent-text";
  return (
    <code className={cx("rounded px-1.5 py-0.5 font-mono text-xs wrap-anywhere", tone, className)}>
      {value}
    </code>
  );
}
