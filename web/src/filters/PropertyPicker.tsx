import { useQueries, useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Combobox, type ComboboxGroup, type ComboboxOption } from "@/ui";
import {
  cohortsQuery,
  ELEMENT_FIELDS,
  flagsQuery,
  GROUP_KEY,
  groupTypeName,
  groupTypesQuery,
  METADATA_FIELDS,
  propertyDefinitionsQuery,
  SESSION_FIELDS,
} from "./definitions";
import { type PropertyKind, propertyLabel } from "./operators";
import type { FilterType } from "./types";

export interface PropertyChoice {
  type: FilterType;
  /// The property; of a cohort its id, of an SQL expression its text.
  key: string;
  groupIndex?: number;
  kind?: PropertyKind | null;
}

export type PropertySource =
  | "event"
  | "person"
  | "group"
  | "session"
  | "cohort"
  | "element"
  | "event_metadata"
  | "hogql"
  /// Another feature flag, in the conditions of one.
  | "flag";

export const ALL_SOURCES: readonly PropertySource[] = [
  "event",
  "person",
  "cohort",
  "group",
  "session",
  "event_metadata",
  "element",
  "hogql",
];

export interface PropertyPickerProps {
  label?: string;
  value: PropertyChoice | null;
  onChange: (choice: PropertyChoice) => void;
  sources?: readonly PropertySource[];
  /// Offers only properties of these events; others by typing.
  events?: readonly string[];
  /// Only groups of this type, by their key as well.
  groupIndex?: number;
  /// The flag that cannot depend on itself.
  exceptFlag?: number;
  /// Only properties that hold numbers.
  numericOnly?: boolean;
  disabled?: boolean;
  size?: "sm" | "md";
  className?: string;
  trigger?: ReactElement<Record<string, unknown>>;
}

const NO_EVENTS: readonly string[] = [];

export function encodeProperty({ type, key, groupIndex }: PropertyChoice): string {
  return `${type}:${groupIndex ?? ""}:${key}`;
}

export function decodeProperty(text: string): PropertyChoice {
  const [type = "event", index = "", ...key] = text.split(":");
  const choice: PropertyChoice = { type: type as FilterType, key: key.join(":") };
  return index === "" ? choice : { ...choice, groupIndex: Number(index) };
}

const SHOWN_PER_SOURCE = 12;

/// Chooses a property of events, persons, groups or sessions, a cohort, or an SQL expression.
export function PropertyPicker({
  label = "Property",
  value,
  onChange,
  sources = ALL_SOURCES,
  events = NO_EVENTS,
  groupIndex,
  exceptFlag,
  numericOnly = false,
  ...rest
}: PropertyPickerProps) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const typed = text.trim();
  const search = useDebounced(typed, 120);
  const offers = (source: PropertySource) => sources.includes(source);

  const eventProperties = useQuery({
    ...propertyDefinitionsQuery(projectId, { type: "event", search, events }),
    enabled: offers("event"),
  });
  const personProperties = useQuery({
    ...propertyDefinitionsQuery(projectId, { type: "person", search }),
    enabled: offers("person"),
  });
  const allGroupTypes = useQuery({ ...groupTypesQuery(projectId), enabled: offers("group") });
  const groupTypes = (allGroupTypes.data ?? []).filter(
    (type) => groupIndex === undefined || type.group_type_index === groupIndex,
  );
  const groupProperties = useQueries({
    queries: groupTypes.map((type) =>
      propertyDefinitionsQuery(projectId, {
        type: "group",
        search,
        groupIndex: type.group_type_index,
      }),
    ),
  });
  const cohorts = useQuery({ ...cohortsQuery(projectId), enabled: offers("cohort") });
  const flags = useQuery({ ...flagsQuery(projectId), enabled: offers("flag") });
  const fetching = eventProperties.isFetching || personProperties.isFetching;

  const matches = (...names: string[]) =>
    names.some((name) => name.toLowerCase().includes(typed.toLowerCase()));
  const shown = <T,>(items: readonly T[]) => (typed ? items : items.slice(0, SHOWN_PER_SOURCE));
  const groups: ComboboxGroup[] = [];
  const add = (heading: string, items: ComboboxOption[]) => {
    if (items.length > 0) groups.push({ heading, items });
  };
  const definitions = (
    found: { results: { name: string; property_type?: string | null; is_numerical: boolean }[] },
    type: FilterType,
    groupIndex?: number,
  ): ComboboxOption[] =>
    shown(found.results.filter(({ is_numerical }) => !numericOnly || is_numerical)).map(
      ({ name, property_type: kind }) => ({
        value: encodeProperty({ type, key: name, groupIndex }),
        label: propertyLabel(name),
        hint: propertyLabel(name) === name ? kind?.toLowerCase() : name,
      }),
    );
  const fields = (
    list: readonly { key: string; label: string; numeric?: boolean }[],
    type: FilterType,
  ) =>
    list
      .filter((field) => matches(field.key, field.label) && (!numericOnly || field.numeric))
      .map((field) => ({
        value: encodeProperty({ type, key: field.key }),
        label: field.label,
      }));

  /// What is typed is on offer although no event had it yet.
  const withTyped = (items: ComboboxOption[], type: FilterType, index?: number) => {
    const known = items.some((item) => decodeProperty(item.value).key === typed);
    return !typed || known || fetching
      ? items
      : [
          ...items,
          {
            value: encodeProperty({ type, key: typed, groupIndex: index }),
            label: typed,
            hint: "not seen yet",
          },
        ];
  };

  if (eventProperties.data && offers("event")) {
    const items = definitions(eventProperties.data, "event");
    add("Event properties", withTyped(items, "event"));
  }
  if (personProperties.data && offers("person")) {
    const items = definitions(personProperties.data, "person");
    add("Person properties", offers("event") ? items : withTyped(items, "person"));
  }
  if (offers("cohort") && !numericOnly) {
    add(
      "Cohorts",
      shown((cohorts.data?.results ?? []).filter(({ name }) => matches(name ?? ""))).map(
        ({ id, name }) => ({
          value: encodeProperty({ type: "cohort", key: String(id) }),
          label: name ?? `Cohort ${id}`,
        }),
      ),
    );
  }
  if (offers("flag")) {
    const others = (flags.data?.results ?? []).filter(
      ({ id, key }) => id !== exceptFlag && matches(key),
    );
    add(
      "Feature flags",
      shown(others).map(({ id, key }) => ({
        value: encodeProperty({ type: "flag", key: String(id) }),
        label: key,
      })),
    );
  }
  groupTypes.forEach((type, at) => {
    const found = groupProperties[at]?.data;
    if (!found) return;
    const index = type.group_type_index;
    const items = definitions(found, "group", index);
    if (groupIndex !== undefined && matches(GROUP_KEY, propertyLabel(GROUP_KEY))) {
      items.unshift({
        value: encodeProperty({ type: "group", key: GROUP_KEY, groupIndex: index }),
        label: propertyLabel(GROUP_KEY),
      });
    }
    add(
      `${groupTypeName(type)} properties`,
      groupIndex === undefined ? items : withTyped(items, "group", index),
    );
  });
  if (offers("session")) add("Session", fields(SESSION_FIELDS, "session"));
  if (offers("event_metadata") && !numericOnly) {
    add("Event columns", fields(METADATA_FIELDS, "event_metadata"));
  }
  if (offers("element") && !numericOnly) add("Clicked element", fields(ELEMENT_FIELDS, "element"));
  if (offers("hogql") && !numericOnly && matches("SQL expression")) {
    add("Advanced", [
      { value: encodeProperty({ type: "hogql", key: "" }), label: "SQL expression" },
    ]);
  }

  const kindOf = ({ type, key, groupIndex }: PropertyChoice): PropertyKind | null => {
    const found =
      type === "event"
        ? eventProperties.data
        : type === "person"
          ? personProperties.data
          : type === "group"
            ? groupProperties[groupTypes.findIndex((one) => one.group_type_index === groupIndex)]
                ?.data
            : undefined;
    const kind = found?.results.find(({ name }) => name === key)?.property_type;
    if (kind) return kind;
    const field = type === "session" ? SESSION_FIELDS.find((one) => one.key === key) : undefined;
    return field?.numeric ? "Numeric" : null;
  };
  return (
    <Combobox
      {...rest}
      label={label}
      options={groups}
      value={value ? encodeProperty(value) : null}
      valueLabel={
        value ? choiceLabel(value, cohorts.data?.results, flags.data?.results) : undefined
      }
      onChange={(next) => {
        const choice = decodeProperty(next);
        onChange({ ...choice, kind: kindOf(choice) });
      }}
      onSearch={setText}
      loading={fetching}
      empty={
        eventProperties.isError ? "The properties could not be loaded." : "No property matches."
      }
    />
  );
}

function choiceLabel(
  { type, key }: PropertyChoice,
  cohorts: readonly { id: number; name?: string | null }[] | undefined,
  flags: readonly { id: number; key: string }[] | undefined,
): string {
  if (type === "flag") return flags?.find(({ id }) => String(id) === key)?.key ?? `Flag ${key}`;
  if (type === "hogql") return "SQL expression";
  if (type === "cohort" || type === "static-cohort") {
    return cohorts?.find(({ id }) => String(id) === key)?.name ?? `Cohort ${key}`;
  }
  const field = [
    ...(type === "session" ? SESSION_FIELDS : []),
    ...(type === "event_metadata" ? METADATA_FIELDS : []),
    ...(type === "element" ? ELEMENT_FIELDS : []),
  ].find((one) => one.key === key);
  return field?.label ?? propertyLabel(key);
}
