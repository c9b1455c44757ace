import { Checkbox as Base } from "@base-ui/react/checkbox";
import { Switch as BaseSwitch } from "@base-ui/react/switch";
import { Check, Minus } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./cx";

export interface ToggleProps {
  label: ReactNode;
  hideLabel?: boolean;
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
  className?: string;
}

const LABEL = "inline-flex min-h-6 items-center gap-2 has-data-disabled:text-muted";

export function Checkbox({
  label,
  hideLabel,
  checked,
  onChange,
  disabled,
  indeterminate = false,
  className,
}: ToggleProps & { indeterminate?: boolean }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: Base UI's checkbox is the control.
    <label className={cx(LABEL, className)}>
      <Base.Root
        checked={checked}
        indeterminate={indeterminate}
        onCheckedChange={onChange}
        disabled={disabled}
        className="grid size-[1.125rem] shrink-0 place-items-center rounded border border-line-strong bg-surface data-checked:border-accent data-checked:bg-accent data-indeterminate:border-accent data-indeterminate:bg-accent data-disabled:opacity-55"
      >
        <Base.Indicator className="text-on-accent [&_svg]:size-3.5">
          {indeterminate ? <Minus aria-hidden /> : <Check aria-hidden strokeWidth={3} />}
        </Base.Indicator>
      </Base.Root>
      <span className={hideLabel ? "sr-only" : undefined}>{label}</span>
    </label>
  );
}

export function Switch({ label, hideLabel, checked, onChange, disabled, className }: ToggleProps) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: Base UI's switch is the control.
    <label className={cx(LABEL, className)}>
      <BaseSwitch.Root
        checked={checked}
        onCheckedChange={onChange}
        disabled={disabled}
        className="flex h-5 w-9 shrink-0 rounded-full border border-line-strong bg-sunken p-0.5 transition-colors data-checked:border-accent data-checked:bg-accent data-disabled:opacity-55"
      >
        <BaseSwitch.Thumb className="size-3.5 rounded-full bg-muted transition-transform data-checked:translate-x-4 data-checked:bg-on-accent" />
      </BaseSwitch.Root>
      <span className={hideLabel ? "sr-only" : undefined}>{label}</span>
    </label>
  );
}
