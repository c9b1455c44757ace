import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { Typed } from "@/filters/ValueInput";
import { useProject } from "@/shell/useProject";
import { Checkbox, Combobox, type ComboboxOption, IconButton } from "@/ui";
import { exact } from "@/ui/format";
import type { PathsQuery, PathType } from "../queries";
import { paths } from "./options";
import { pathItems } from "./pathItems";

const TYPES: readonly { value: PathType; label: string }[] = [
  { value: "$pageview", label: "Page views" },
  { value: "$screen", label: "Screens" },
  { value: "custom_event", label: "Your events" },
  { value: "hogql", label: "SQL expression" },
];

export interface PathsEditorProps {
  query: PathsQuery;
  edit: (query: PathsQuery, topic?: string) => void;
  disabled?: boolean;
}

/// What paths consist of, and where they begin and end.
export function PathsEditor({ query, edit, disabled }: PathsEditorProps) {
  const filter = query.pathsFilter ?? {};
  const types = filter.includeEventTypes ?? [];
  const toggle = (type: PathType, on: boolean) => {
    const next = TYPES.map(({ value }) => value).filter((value) =>
      value === type ? on : types.includes(value),
    );
    edit(paths(query, { includeEventTypes: next.length > 0 ? next : undefined }));
  };
  return (
    <div className="flex flex-col gap-2.5">
      <fieldset className="flex flex-wrap gap-x-4 gap-y-1">
        <legend className="sr-only">Paths of</legend>
        {TYPES.map(({ value, label }) => (
          <Checkbox
            key={value}
            label={label}
            checked={types.includes(value)}
            onChange={(on) => toggle(value, on)}
            disabled={disabled}
          />
        ))}
        {types.length === 0 && <p className="w-full text-xs text-muted">All events.</p>}
      </fieldset>
      {types.includes("hogql") && (
        <Typed
          label="SQL expression of a step"
          placeholder="event"
          value={filter.pathsHogQLExpression ?? ""}
          onCommit={(text) =>
            edit(paths(query, { pathsHogQLExpression: text || undefined }), "hogql")
          }
          disabled={disabled}
          className="w-full font-mono"
        />
      )}
      <Endpoint
        label="Begin at"
        query={query}
        value={filter.startPoint ?? undefined}
        onChange={(startPoint) => edit(paths(query, { startPoint }))}
        disabled={disabled}
      />
      <Endpoint
        label="End at"
        query={query}
        value={filter.endPoint ?? undefined}
        onChange={(endPoint) => edit(paths(query, { endPoint }))}
        disabled={disabled}
      />
    </div>
  );
}

interface EndpointProps {
  label: "Begin at" | "End at";
  query: PathsQuery;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  disabled?: boolean;
}

function Endpoint({ label, query, value, onChange, disabled }: EndpointProps) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const { startPoint: _start, endPoint: _end, ...rest } = query.pathsFilter ?? {};
  const items = useQuery({
    queryKey: ["path_items", projectId, { ...query, pathsFilter: rest }],
    staleTime: 60_000,
    queryFn: ({ signal }) => pathItems(projectId, query, signal),
  });
  const typed = text.trim();
  const rank = (item: { count: number; entries: number }) =>
    label === "Begin at" ? item.entries : item.count;
  const options: ComboboxOption[] = (items.data ?? [])
    .filter(({ name }) => name.toLowerCase().includes(typed.toLowerCase()))
    .sort((a, b) => rank(b) - rank(a))
    .slice(0, 50)
    .map((item) => ({ value: item.name, label: item.name, hint: exact(rank(item)) }));
  if (typed && !options.some((option) => option.value === typed)) {
    options.push({ value: typed, label: typed, hint: "as typed" });
  }
  return (
    <div className="flex items-center gap-1.5">
      <span aria-hidden="true" className="w-14 text-[0.8125rem] text-muted">
        {label}
      </span>
      <Combobox
        label={label === "Begin at" ? "Starting point" : "End point"}
        size="sm"
        className="max-w-60"
        options={options}
        value={value ?? null}
        valueLabel={value}
        onChange={onChange}
        onSearch={setText}
        loading={items.isFetching}
        empty="No page or event matches."
        disabled={disabled}
      />
      {value !== undefined && !disabled && (
        <IconButton
          label={`${label} any page or event`}
          size="sm"
          onClick={() => onChange(undefined)}
        >
          <X aria-hidden />
        </IconButton>
      )}
    </div>
  );
}
