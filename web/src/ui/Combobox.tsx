import { Combobox as Base } from "@base-ui/react/combobox";
import { Check, ChevronDown } from "lucide-react";
import type { ReactElement, ReactNode } from "react";
import { cx } from "./cx";

export interface ComboboxOption {
  value: string;
  label: string;
  hint?: ReactNode;
  icon?: ReactNode;
  disabled?: boolean;
}

export interface ComboboxGroup {
  heading: string;
  items: readonly ComboboxOption[];
}

interface Shared {
  /// What is chosen, as in "Event".
  label: string;
  options: readonly ComboboxOption[] | readonly ComboboxGroup[];
  placeholder?: string;
  /// Called as one types. Give it when the server filters; the options are then shown as they are.
  onSearch?: (text: string) => void;
  loading?: boolean;
  empty?: ReactNode;
  /// A control of its own in place of the usual button.
  trigger?: ReactElement<Record<string, unknown>>;
  disabled?: boolean;
  size?: "sm" | "md";
  className?: string;
}

export interface ComboboxProps extends Shared {
  value: string | null;
  onChange: (value: string) => void;
  /// The label of a value that is not among the options (yet).
  valueLabel?: string;
}

export interface MultiComboboxProps extends Shared {
  value: readonly string[];
  /// Labels of values that are not among the options, as while one searches.
  valueLabels?: Readonly<Record<string, string>>;
  onChange: (value: string[]) => void;
}

function isGroups(
  options: readonly ComboboxOption[] | readonly ComboboxGroup[],
): options is readonly ComboboxGroup[] {
  const first = options[0];
  return first !== undefined && "items" in first;
}

function Item({ option }: { option: ComboboxOption }) {
  return (
    <Base.Item value={option.value} disabled={option.disabled} className="popup-item pr-8">
      {option.icon && <span className="text-muted [&_svg]:size-4">{option.icon}</span>}
      {/* The name gives way last. */}
      <span className={cx("min-w-0 truncate", option.hint ? "max-w-3/4 shrink-0" : "flex-1")}>
        {option.label}
      </span>
      {option.hint && (
        <span className="ml-auto min-w-0 truncate text-xs text-muted">{option.hint}</span>
      )}
      <Base.ItemIndicator className="absolute right-3">
        <Check className="size-4 text-accent-text" aria-hidden />
      </Base.ItemIndicator>
    </Base.Item>
  );
}

function Popup({ label, options, loading, empty, onSearch }: Shared) {
  return (
    <Base.Portal>
      <Base.Positioner sideOffset={4} align="start" className="z-50">
        <Base.Popup
          aria-label={label}
          className="popup flex max-h-[min(24rem,var(--available-height))] w-80 max-w-(--available-width) flex-col"
        >
          <div className="border-b p-1.5">
            <Base.Input
              placeholder="Search"
              aria-label={`Search ${label.toLowerCase()}`}
              className="field-box h-8"
              onChange={(event) => onSearch?.(event.currentTarget.value)}
            />
          </div>
          <Base.Empty className="px-3 py-4 text-muted empty:hidden">
            {loading ? "Searching…" : (empty ?? "Nothing matches.")}
          </Base.Empty>
          <Base.List
            aria-label={label}
            className="scroll-thin min-h-0 flex-1 overflow-y-auto p-1 data-empty:p-0"
          >
            {isGroups(options)
              ? (group: ComboboxGroup) => (
                  <Base.Group key={group.heading} items={group.items}>
                    <Base.GroupLabel className="px-2 pt-2 pb-1 text-xs text-muted">
                      {group.heading}
                    </Base.GroupLabel>
                    <Base.Collection>
                      {(option: ComboboxOption) => <Item key={option.value} option={option} />}
                    </Base.Collection>
                  </Base.Group>
                )
              : (option: ComboboxOption) => <Item key={option.value} option={option} />}
          </Base.List>
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  );
}

function Trigger({
  label,
  text,
  trigger,
  size = "md",
  className,
}: Shared & { text: string | null }) {
  if (trigger) {
    // A combobox takes no name from its content.
    const { children, "aria-label": given } = trigger.props;
    const name = given ?? (typeof children === "string" ? children : label);
    return <Base.Trigger aria-label={String(name)} render={trigger} />;
  }
  return (
    <Base.Trigger
      aria-label={text ? `${label}: ${text}` : label}
      className={cx(
        "field-box flex w-auto max-w-full min-w-0 items-center justify-between gap-2 text-left select-none",
        size === "sm" ? "h-7 min-h-7 px-2! text-[0.8125rem]" : "h-8",
        className,
      )}
    >
      <span className={cx("truncate", !text && "text-faint")}>
        {text ?? `Choose ${label.toLowerCase()}`}
      </span>
      <ChevronDown className="size-4 shrink-0 text-muted" aria-hidden />
    </Base.Trigger>
  );
}

function flat(options: Shared["options"]): readonly ComboboxOption[] {
  return isGroups(options) ? options.flatMap((group) => group.items) : options;
}

function labelOf(options: Shared["options"], value: string): string {
  return flat(options).find((option) => option.value === value)?.label ?? value;
}

function matches(option: unknown, text: string, labels: Shared["options"]): boolean {
  const label =
    typeof option === "string" ? labelOf(labels, option) : (option as ComboboxOption).label;
  return label.toLowerCase().includes(text.trim().toLowerCase());
}

/// Chooses one of many, with a search box. Modal, since an open combobox beside the page fails axe.
export function Combobox({ value, onChange, valueLabel, ...shared }: ComboboxProps) {
  const { options, onSearch, disabled } = shared;
  const text = value === null ? null : (valueLabel ?? labelOf(options, value));
  return (
    <Base.Root
      modal
      items={options as ComboboxOption[]}
      value={value}
      onValueChange={(next: string | null) => next !== null && onChange(next)}
      itemToStringLabel={(item: string) => labelOf(options, item)}
      filter={onSearch ? null : (item: unknown, query: string) => matches(item, query, options)}
      disabled={disabled}
      onOpenChange={(open) => open && onSearch?.("")}
    >
      <Trigger {...shared} text={text} />
      <Popup {...shared} />
    </Base.Root>
  );
}

/// Chooses several of many.
export function MultiCombobox({ value, onChange, valueLabels, ...shared }: MultiComboboxProps) {
  const { options, onSearch, disabled } = shared;
  const nameOf = (item: string) => valueLabels?.[item] ?? labelOf(options, item);
  const text = value.length === 0 ? null : value.map(nameOf).join(", ");
  return (
    <Base.Root
      modal
      multiple
      items={options as ComboboxOption[]}
      value={[...value]}
      onValueChange={(next: string[]) => onChange(next)}
      itemToStringLabel={(item: string) => labelOf(options, item)}
      filter={onSearch ? null : (item: unknown, query: string) => matches(item, query, options)}
      disabled={disabled}
      onOpenChange={(open) => open && onSearch?.("")}
    >
      <Trigger {...shared} text={text} />
      <Popup {...shared} />
    </Base.Root>
  );
}
