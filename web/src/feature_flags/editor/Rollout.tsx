import { NumberField } from "@/ui";

export interface RolloutProps {
  label: string;
  value: number;
  onChange: (value: number) => void;
  disabled?: boolean;
}

/// A share of 0 to 100%: a slider for whole numbers and a field for exact ones.
export function Rollout({ label, value, onChange, disabled }: RolloutProps) {
  return (
    <div className="flex min-w-0 items-center gap-3">
      <input
        type="range"
        aria-label={label}
        aria-valuetext={`${value}%`}
        min={0}
        max={100}
        step={1}
        value={value}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.valueAsNumber)}
        className="h-6 min-w-16 flex-1 accent-accent"
      />
      <NumberField
        label={`${label}, percent`}
        value={value}
        min={0}
        max={100}
        disabled={disabled}
        onChange={(next) => onChange(next ?? 0)}
      />
      <span className="-ml-2 text-muted" aria-hidden>
        %
      </span>
    </div>
  );
}
