import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Combobox, cx, MultiCombobox, Select } from "@/ui";
import { exact } from "@/ui/format";
import { cohortsQuery, flagsQuery, propertyValuesQuery } from "./definitions";
import { inputKind, type PropertyKind } from "./operators";
import { type FilterValue, filterKey, type PropertyFilter } from "./types";

export interface ValueInputProps {
  filter: PropertyFilter;
  kind: PropertyKind | null;
  onChange: (value: FilterValue) => void;
  disabled?: boolean;
  invalid?: boolean;
}

const BOX = "field-box h-7 min-h-7 px-2! text-[0.8125rem]";
const OPTIONS_MAX = 50;

function list(value: FilterValue | undefined): (string | number | boolean)[] {
  const values = Array.isArray(value) ? value : value === "" ? [] : [value];
  return values.filter((one) => one !== null && one !== undefined);
}

function numberOf(text: string): number | null {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? null : value;
}

/// The value of a filter, as its operator needs it.
export function ValueInput({ filter, kind, onChange, disabled, invalid }: ValueInputProps) {
  switch (inputKind(filter.operator)) {
    case "none":
      return null;
    case "choices":
      return <Choices filter={filter} kind={kind} onChange={onChange} disabled={disabled} />;
    case "cohort":
      return <CohortChoice value={filter.value} onChange={onChange} disabled={disabled} />;
    case "flag":
      return <FlagChoice filter={filter} onChange={onChange} disabled={disabled} />;
    case "number":
      return (
        <Typed
          label="Value"
          value={filter.value === null || filter.value === undefined ? "" : String(filter.value)}
          onCommit={(text) => onChange(numberOf(text) ?? (text === "" ? null : text))}
          inputMode="decimal"
          disabled={disabled}
          invalid={invalid}
          className="w-24"
        />
      );
    case "range": {
      const [from = "", to = ""] = list(filter.value).map(String);
      const commit = (a: string, b: string) => onChange([numberOf(a) ?? "", numberOf(b) ?? ""]);
      return (
        <span className="flex items-center gap-1.5">
          <Typed
            label="From"
            value={from}
            onCommit={(text) => commit(text, to)}
            inputMode="decimal"
            disabled={disabled}
            className="w-20"
          />
          <span className="text-muted">and</span>
          <Typed
            label="To"
            value={to}
            onCommit={(text) => commit(from, text)}
            inputMode="decimal"
            disabled={disabled}
            className="w-20"
          />
        </span>
      );
    }
    case "date":
      return <DateValue value={filter.value} onChange={onChange} disabled={disabled} />;
    default:
      return (
        <Typed
          label="Value"
          value={list(filter.value).map(String).join(", ")}
          onCommit={(text) => onChange(text === "" ? null : text)}
          disabled={disabled}
          invalid={invalid}
          className="w-auto max-w-60 min-w-32 field-sizing-content"
        />
      );
  }
}

export interface TypedProps {
  label: string;
  value: string;
  onCommit: (text: string) => void;
  inputMode?: "decimal" | "text";
  placeholder?: string;
  disabled?: boolean;
  invalid?: boolean;
  className?: string;
}

const COMMIT_MS = 400;

/// A text box whose value counts once one stops typing, presses Enter or leaves it.
export function Typed({
  label,
  value,
  onCommit,
  inputMode,
  placeholder,
  disabled,
  invalid,
  className,
}: TypedProps) {
  const [text, setText] = useState<string | null>(null);
  const [timer, setTimer] = useState<ReturnType<typeof setTimeout>>();
  const commit = (next: string) => {
    clearTimeout(timer);
    if (next !== value) onCommit(next);
  };
  return (
    <input
      aria-label={label}
      aria-invalid={invalid || undefined}
      value={text ?? value}
      inputMode={inputMode}
      placeholder={placeholder}
      disabled={disabled}
      onChange={(event) => {
        const next = event.currentTarget.value;
        setText(next);
        clearTimeout(timer);
        setTimer(setTimeout(() => commit(next), COMMIT_MS));
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") commit(event.currentTarget.value);
      }}
      onBlur={(event) => {
        commit(event.currentTarget.value);
        setText(null);
      }}
      className={cx(BOX, className)}
    />
  );
}

function Choices({ filter, kind, onChange, disabled }: ValueInputProps) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const typed = text.trim();
  const search = useDebounced(typed, 150);
  const chosen = list(filter.value);
  const type = filter.type ?? "event";
  const isBoolean = kind === "Boolean";
  const values = useQuery({
    ...propertyValuesQuery(projectId, {
      type,
      key: filterKey(filter),
      search,
      groupIndex: filter.group_type_index ?? undefined,
    }),
    ...(isBoolean ? { enabled: false } : {}),
  });
  const found = isBoolean ? [{ name: "true" }, { name: "false" }] : (values.data ?? []);
  const options: { value: string; label: string; hint?: string }[] = [];
  const add = (value: string, hint?: string) => {
    if (!options.some((option) => option.value === value)) {
      options.push({ value, label: value === "" ? "(empty)" : value, hint });
    }
  };
  // What is chosen stays in the list, so that it can be taken out again.
  for (const value of chosen) if (String(value).includes(typed)) add(String(value));
  for (const value of found.slice(0, OPTIONS_MAX)) {
    const hint = "count" in value && value.count !== undefined ? exact(value.count) : undefined;
    if (value.name.toLowerCase().includes(typed.toLowerCase())) add(value.name, hint);
  }
  if (typed && !isBoolean)
    add(typed, options.some(({ value }) => value === typed) ? undefined : "as typed");
  const numeric = kind === "Numeric" || kind === "Duration";
  return (
    <MultiCombobox
      label="Value"
      size="sm"
      className="max-w-52"
      options={options}
      value={chosen.map(String)}
      onChange={(next) =>
        onChange(next.map((value) => (numeric ? (numberOf(value) ?? value) : value)))
      }
      onSearch={setText}
      loading={values.isFetching}
      empty="Type a value."
      disabled={disabled}
    />
  );
}

function CohortChoice({
  value,
  onChange,
  disabled,
}: Pick<ValueInputProps, "onChange" | "disabled"> & { value: FilterValue | undefined }) {
  const { projectId } = useProject();
  const cohorts = useQuery(cohortsQuery(projectId));
  return (
    <Combobox
      label="Cohort"
      size="sm"
      className="max-w-52"
      options={(cohorts.data?.results ?? []).map(({ id, name }) => ({
        value: String(id),
        label: name ?? `Cohort ${id}`,
      }))}
      value={value === null || value === undefined ? null : String(value)}
      onChange={(next) => onChange(Number(next))}
      loading={cohorts.isPending}
      empty="There is no cohort yet."
      disabled={disabled}
    />
  );
}

/// What another flag answers: on, off, or one of its variants.
function FlagChoice({ filter, onChange, disabled }: Omit<ValueInputProps, "kind">) {
  const { projectId } = useProject();
  const flags = useQuery(flagsQuery(projectId));
  const flag = flags.data?.results.find(({ id }) => String(id) === filterKey(filter));
  const variants = (flag?.filters.multivariate?.variants ?? []).map(({ key }) => key);
  const chosen = String(filter.value ?? true);
  const values = [...new Set(["true", "false", ...variants, chosen])];
  return (
    <Select
      label="Value of the flag"
      size="sm"
      value={chosen}
      disabled={disabled}
      onChange={(next) => onChange(next === "true" || next === "false" ? next === "true" : next)}
      options={values.map((value) => ({
        value,
        label: value === "true" && variants.length > 0 ? "true (any variant)" : value,
      }))}
    />
  );
}

function DateValue({
  value,
  onChange,
  disabled,
}: Pick<ValueInputProps, "onChange" | "disabled"> & { value: FilterValue | undefined }) {
  const text = value === null || value === undefined ? "" : String(value);
  const isDate = text === "" || /^\d{4}-\d{2}-\d{2}/.test(text);
  return (
    <span className="flex items-center gap-1.5">
      {isDate && (
        <input
          type="date"
          aria-label="Date"
          value={text.slice(0, 10)}
          disabled={disabled}
          onChange={(event) => onChange(event.currentTarget.value || null)}
          className={cx(BOX, "w-36")}
        />
      )}
      <Typed
        label="Date as text"
        placeholder="or -7d"
        value={isDate ? "" : text}
        onCommit={(next) => onChange(next || null)}
        disabled={disabled}
        className="w-20"
      />
    </span>
  );
}
