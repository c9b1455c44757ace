import { LoaderCircle } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";
import { cx } from "./cx";
import { Tooltip } from "./Tooltip";

export type ButtonVariant = "primary" | "secondary" | "ghost" | "danger";
export type ButtonSize = "sm" | "md" | "lg";

const VARIANT: Record<ButtonVariant, string> = {
  primary: "bg-accent text-on-accent hover:bg-accent-hover border-transparent",
  secondary:
    "bg-surface text-text hover:bg-hover border-line-strong/60 aria-pressed:bg-accent-soft aria-pressed:text-accent-text",
  ghost: "bg-transparent text-text hover:bg-hover border-transparent",
  danger: "bg-danger text-on-danger hover:bg-danger-hover border-transparent",
};
const SIZE: Record<ButtonSize, string> = {
  sm: "h-7 px-2 text-[0.8125rem] gap-1",
  md: "h-8 px-3 gap-1.5",
  lg: "h-10 px-4 gap-2",
};
const ICON_SIZE: Record<ButtonSize, string> = { sm: "size-7", md: "size-8", lg: "size-10" };
const BASE =
  "inline-flex shrink-0 items-center justify-center rounded-md border font-medium whitespace-nowrap select-none transition-colors disabled:cursor-not-allowed aria-disabled:cursor-not-allowed disabled:opacity-55 aria-disabled:opacity-55 [&_svg]:size-4 [&_svg]:shrink-0";

/// The look of a button, for links and triggers.
export function buttonClass(variant: ButtonVariant = "secondary", size: ButtonSize = "md"): string {
  return cx(BASE, VARIANT[variant], SIZE[size]);
}

export interface ButtonProps extends ComponentProps<"button"> {
  variant?: ButtonVariant;
  size?: ButtonSize;
  icon?: ReactNode;
  /// Work is under way: the button is disabled and says so.
  busy?: boolean;
  /// Why the button does nothing. It stays focusable, so that the reason can be read.
  disabledReason?: string;
}

export function Button({
  variant,
  size,
  icon,
  busy = false,
  disabledReason,
  className,
  children,
  disabled,
  onClick,
  type = "button",
  ...rest
}: ButtonProps) {
  const button = (
    <button
      type={type}
      className={cx(buttonClass(variant, size), className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      aria-disabled={disabledReason ? true : undefined}
      onClick={disabledReason ? (event) => event.preventDefault() : onClick}
      {...rest}
    >
      {busy ? <LoaderCircle className="animate-spin" aria-hidden /> : icon}
      {children}
    </button>
  );
  return disabledReason ? <Tooltip label={disabledReason}>{button}</Tooltip> : button;
}

export interface IconButtonProps extends Omit<ComponentProps<"button">, "aria-label"> {
  /// What the button does: its name and its tooltip.
  label: string;
  variant?: ButtonVariant;
  size?: ButtonSize;
  /// Why the button does nothing: its tooltip then.
  disabledReason?: string;
}

export function IconButton({
  label,
  variant = "ghost",
  size = "md",
  className,
  children,
  disabledReason,
  onClick,
  type = "button",
  ...rest
}: IconButtonProps) {
  return (
    <Tooltip label={disabledReason ?? label}>
      <button
        type={type}
        aria-label={label}
        aria-disabled={disabledReason ? true : undefined}
        onClick={disabledReason ? (event) => event.preventDefault() : onClick}
        className={cx(BASE, VARIANT[variant], ICON_SIZE[size], className)}
        {...rest}
      >
        {children}
      </button>
    </Tooltip>
  );
}
