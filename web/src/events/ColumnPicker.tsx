import { useQuery } from "@tanstack/react-query";
import { ArrowDown, ArrowUp, Columns3, Plus, X } from "lucide-react";
import { useState } from "react";
import { propertyDefinitionsQuery } from "@/filters/definitions";
import { propertyLabel } from "@/filters/operators";
import { useDebounced } from "@/shell/useDebounced";
import { Button, Combobox, type ComboboxGroup, IconButton, Popover } from "@/ui";
import {
  columnLabel,
  DEFAULT_COLUMNS,
  eventPropertyColumn,
  FIXED_COLUMNS,
  personPropertyColumn,
} from "./columns";

export interface ColumnPickerProps {
  projectId: string;
  columns: readonly string[];
  onChange: (columns: string[] | undefined) => void;
}

function useColumnOptions(projectId: string, search: string, chosen: readonly string[]) {
  const text = useDebounced(search, 150);
  const event = useQuery(propertyDefinitionsQuery(projectId, { type: "event", search: text }));
  const person = useQuery(propertyDefinitionsQuery(projectId, { type: "person", search: text }));
  const free = (value: string) => !chosen.includes(value);
  const properties = (
    names: readonly { name: string }[] | undefined,
    column: (name: string) => string,
  ) =>
    (names ?? [])
      .map(({ name }) => ({
        value: column(name),
        label: propertyLabel(name),
        hint: propertyLabel(name) === name ? undefined : name,
      }))
      .filter(({ value }) => free(value));
  const needle = text.trim().toLowerCase();
  const groups: ComboboxGroup[] = [
    {
      heading: "Event",
      items: FIXED_COLUMNS.filter(
        ({ value, label }) => free(value) && label.toLowerCase().includes(needle),
      ),
    },
    {
      heading: "Event properties",
      items: properties(event.data?.results, eventPropertyColumn),
    },
    {
      heading: "Person properties",
      items: properties(person.data?.results, personPropertyColumn),
    },
  ];
  return {
    groups: groups.filter(({ items }) => items.length > 0),
    loading: event.isFetching || person.isFetching,
  };
}

/// Which columns the table has, and in which order.
export function ColumnPicker({ projectId, columns, onChange }: ColumnPickerProps) {
  const [search, setSearch] = useState("");
  const { groups, loading } = useColumnOptions(projectId, search, columns);
  const move = (from: number, to: number) => {
    const next = [...columns];
    next.splice(to, 0, ...next.splice(from, 1));
    onChange(next);
  };
  return (
    <Popover
      title="Columns"
      align="end"
      className="w-80"
      trigger={<Button icon={<Columns3 aria-hidden />}>Columns</Button>}
    >
      <ol className="flex flex-col">
        {columns.map((column, at) => {
          const label = columnLabel(column);
          return (
            <li key={column} className="flex min-h-8 items-center gap-0.5 border-b last:border-b-0">
              <span className="min-w-0 flex-1 truncate" title={column}>
                {label}
              </span>
              <IconButton
                size="sm"
                label={`Move ${label} up`}
                disabled={at === 0}
                onClick={() => move(at, at - 1)}
              >
                <ArrowUp aria-hidden />
              </IconButton>
              <IconButton
                size="sm"
                label={`Move ${label} down`}
                disabled={at === columns.length - 1}
                onClick={() => move(at, at + 1)}
              >
                <ArrowDown aria-hidden />
              </IconButton>
              <IconButton
                size="sm"
                label={`Remove ${label}`}
                disabled={columns.length === 1}
                onClick={() => onChange(columns.filter((other) => other !== column))}
              >
                <X aria-hidden />
              </IconButton>
            </li>
          );
        })}
      </ol>
      <div className="mt-3 flex items-center justify-between gap-2">
        <Combobox
          label="Column"
          value={null}
          options={groups}
          onSearch={setSearch}
          loading={loading}
          onChange={(column) => onChange([...columns, column])}
          trigger={
            <Button size="sm" icon={<Plus aria-hidden />}>
              Add column
            </Button>
          }
        />
        <Button
          size="sm"
          variant="ghost"
          disabled={columns.join() === DEFAULT_COLUMNS.join()}
          onClick={() => onChange(undefined)}
        >
          Reset
        </Button>
      </div>
    </Popover>
  );
}
