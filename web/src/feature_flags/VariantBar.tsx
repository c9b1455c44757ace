import { seriesColor } from "@/charts/palette";
import { cx } from "@/ui";
import { exact } from "@/ui/format";
import type { FlagVariant } from "./flagApi";

export interface VariantBarProps {
  variants: readonly FlagVariant[];
  className?: string;
}

/// The shares of variants side by side. Their numbers stand beside it, or in its name.
export function VariantBar({ variants, className }: VariantBarProps) {
  const name = variants.map(({ key, rollout_percentage: share }) => `${key} ${exact(share)}%`);
  return (
    <div
      role="img"
      aria-label={name.join(", ")}
      title={name.join(", ")}
      className={cx("flex h-2 overflow-hidden rounded-full bg-sunken", className)}
    >
      {variants.map(({ rollout_percentage: share }, at) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: a key changes as one types.
          key={at}
          className="border-r border-surface last:border-r-0"
          style={{ width: `${share}%`, backgroundColor: seriesColor(at) }}
        />
      ))}
    </div>
  );
}
