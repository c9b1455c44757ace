import { NumberField as Base } from "@base-ui/react/number-field";
import { Minus, Plus } from "lucide-react";
import { cx } from "./cx";

export interface NumberFieldProps {
  /// The name, unless a `Field` gives it.
  label?: string;
  value: number | null;
  onChange: (value: number | null) => void;
  min?: number;
  max?: number;
  step?: number;
  disabled?: boolean;
  className?: string;
}

const STEP =
  "grid w-7 place-items-center text-muted hover:bg-hover hover:text-text disabled:opacity-40 [&_svg]:size-3.5";

export function NumberField({ label, value, onChange, className, ...rest }: NumberFieldProps) {
  return (
    <Base.Root value={value} onValueChange={onChange} {...rest}>
      <Base.Group
        className={cx(
          "field-box flex h-8 w-28 overflow-hidden px-0! focus-within:outline-2 focus-within:-outline-offset-1 focus-within:outline-accent",
          className,
        )}
      >
        <Base.Decrement className={STEP} aria-label="Decrease">
          <Minus aria-hidden />
        </Base.Decrement>
        <Base.Input
          aria-label={label}
          className="w-full min-w-0 bg-transparent text-center tabular-nums outline-none"
        />
        <Base.Increment className={STEP} aria-label="Increase">
          <Plus aria-hidden />
        </Base.Increment>
      </Base.Group>
    </Base.Root>
  );
}
