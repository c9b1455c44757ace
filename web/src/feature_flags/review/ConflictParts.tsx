import { cx } from "@/ui";
import type { FlagCondition, FlagVariant } from "../flagApi";
import { type Clash, type Part, partLabel } from "../model/merge";
import { conditionSentence, type Names } from "../model/sentences";
import type { FlagConflict } from "./save";

export interface ConflictPartsProps {
  conflict: FlagConflict;
  /// The parts of which mine stays.
  mine: ReadonlySet<Part>;
  onChange: (mine: ReadonlySet<Part>) => void;
  names: Names;
}

/// What two people changed differently, field by field: theirs or mine.
export function ConflictParts({ conflict, mine, onChange, names }: ConflictPartsProps) {
  const choose = (part: Part, isMine: boolean) => {
    const next = new Set(mine);
    if (isMine) next.add(part);
    else next.delete(part);
    onChange(next);
  };
  return (
    <div className="flex flex-col gap-4">
      <p>
        <strong>{conflict.author ?? "Somebody"}</strong> saved it after you began to edit. Nothing
        of yours is saved yet, and nothing is lost. Choose for each field; the rest of your changes
        stays.
      </p>
      {conflict.clashes.map((clash) => (
        <fieldset key={clash.part}>
          <legend className="mb-1 font-semibold">{partLabel(clash.part)}</legend>
          <div className="grid gap-2 sm:grid-cols-2">
            <Choice
              name={clash.part}
              label="Theirs"
              lines={linesOf(clash, clash.theirs, names)}
              checked={!mine.has(clash.part)}
              onChoose={() => choose(clash.part, false)}
            />
            <Choice
              name={clash.part}
              label="Mine"
              lines={linesOf(clash, clash.mine, names)}
              checked={mine.has(clash.part)}
              onChoose={() => choose(clash.part, true)}
            />
          </div>
        </fieldset>
      ))}
    </div>
  );
}

interface ChoiceProps {
  name: string;
  label: string;
  lines: readonly string[];
  checked: boolean;
  onChoose: () => void;
}

function Choice({ name, label, lines, checked, onChoose }: ChoiceProps) {
  return (
    <label
      className={cx(
        "flex cursor-pointer gap-2 rounded-md border p-3 has-focus-visible:outline-2 has-focus-visible:outline-accent",
        checked ? "border-accent bg-accent-soft" : "hover:bg-hover",
      )}
    >
      <input
        type="radio"
        name={name}
        checked={checked}
        onChange={onChoose}
        className="mt-0.5 size-4 accent-accent"
      />
      <span className="min-w-0">
        <span className="block font-medium">{label}</span>
        {lines.map((line) => (
          <span key={line} className="block text-[0.8125rem] wrap-anywhere">
            {line}
          </span>
        ))}
      </span>
    </label>
  );
}

/// One side of a clash, for people.
function linesOf({ part }: Clash, value: unknown, names: Names): string[] {
  switch (part) {
    case "filters.groups":
      return ((value ?? []) as FlagCondition[]).map(
        (condition, at) => `${at + 1}. ${conditionSentence(condition, names)}`,
      );
    case "filters.multivariate": {
      const { variants = [] } = (value ?? {}) as { variants?: FlagVariant[] };
      return variants.length === 0
        ? ["No variants"]
        : variants.map(({ key, rollout_percentage: share }) => `${key}: ${share}%`);
    }
    case "active":
      return [value ? "On" : "Off"];
    case "analytics_dashboards":
      return ((value ?? []) as number[]).map(names.dashboard);
    default:
      if (typeof value === "boolean") return [value ? "Yes" : "No"];
      if (Array.isArray(value)) return [value.join(", ") || "None"];
      return [typeof value === "string" ? value || "(empty)" : JSON.stringify(value ?? null)];
  }
}
