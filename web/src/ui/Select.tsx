import { Select as Base } from "@base-ui/react/select";
import { Check, ChevronDown } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./cx";

export interface SelectOption<T extends string> {
  value: T;
  label: string;
  hint?: string;
  icon?: ReactNode;
  disabled?: boolean;
}

export interface SelectProps<T extends string> {
  /// The name, unless a `Field` gives it.
  label?: string;
  value: T;
  onChange: (value: T) => void;
  options: readonly SelectOption<T>[];
  disabled?: boolean;
  size?: "sm" | "md";
  className?: string;
}

export function Select<T extends string>({
  label,
  value,
  onChange,
  options,
  disabled,
  size = "md",
  className,
}: SelectProps<T>) {
  return (
    <Base.Root
      items={options as SelectOption<T>[]}
      value={value}
      onValueChange={(next) => next !== null && onChange(next as T)}
      disabled={disabled}
    >
      <Base.Trigger
        aria-label={label}
        className={cx(
          "field-box flex w-auto items-center justify-between gap-2 text-left whitespace-nowrap select-none",
          size === "sm" ? "h-7 min-h-7 px-2! text-[0.8125rem]" : "h-8",
          className,
        )}
      >
        <Base.Value className="truncate" />
        <Base.Icon className="text-muted">
          <ChevronDown className="size-4" aria-hidden />
        </Base.Icon>
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} alignItemWithTrigger={false} className="z-50">
          <Base.Popup className="popup min-w-(--anchor-width)">
            <Base.List className="scroll-thin max-h-[min(22rem,var(--available-height))] overflow-y-auto p-1">
              {options.map((option) => (
                <Base.Item
                  key={option.value}
                  value={option.value}
                  disabled={option.disabled}
                  className="popup-item pr-8"
                >
                  {option.icon}
                  <span className="flex flex-col">
                    <Base.ItemText>{option.label}</Base.ItemText>
                    {option.hint && <span className="text-xs text-muted">{option.hint}</span>}
                  </span>
                  <Base.ItemIndicator className="absolute right-3">
                    <Check className="size-4 text-accent-text" aria-hidden />
                  </Base.ItemIndicator>
                </Base.Item>
              ))}
            </Base.List>
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
