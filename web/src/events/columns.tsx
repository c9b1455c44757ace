import type { ReactNode } from "react";
import { eventLabel, propertyLabel } from "@/filters/operators";
import { RelativeTime } from "@/ui";
import type { Event } from "./eventList";

/// Columns are named as HogQL names them: `event`, `properties.$browser`, `person.properties.email`.
export const DEFAULT_COLUMNS: readonly string[] = [
  "event",
  "timestamp",
  "person",
  "properties.$current_url",
  "properties.$lib",
];

const FIXED: Record<string, string> = {
  event: "Event",
  timestamp: "Time",
  person: "Person",
  distinct_id: "Distinct id",
  uuid: "Event id",
};

export const FIXED_COLUMNS = Object.entries(FIXED).map(([value, label]) => ({ value, label }));

const EVENT_PROPERTY = "properties.";
const PERSON_PROPERTY = "person.properties.";

export type ColumnPart =
  | { kind: "fixed"; name: string }
  | { kind: "event" | "person"; name: string };

export function columnPart(column: string): ColumnPart | null {
  if (column in FIXED) return { kind: "fixed", name: column };
  for (const [kind, prefix] of [
    ["person", PERSON_PROPERTY],
    ["event", EVENT_PROPERTY],
  ] as const) {
    if (column.startsWith(prefix) && column.length > prefix.length) {
      return { kind, name: column.slice(prefix.length) };
    }
  }
  return null;
}

export function eventPropertyColumn(name: string): string {
  return EVENT_PROPERTY + name;
}

export function personPropertyColumn(name: string): string {
  return PERSON_PROPERTY + name;
}

export function columnLabel(column: string): string {
  const part = columnPart(column);
  if (!part) return column;
  if (part.kind === "fixed") return FIXED[part.name] ?? part.name;
  const label = propertyLabel(part.name);
  return part.kind === "person" ? `Person: ${label}` : label;
}

/// The expression of a column, for the CSV.
export function columnExpression(column: string): string {
  const part = columnPart(column);
  if (!part) return column;
  if (part.name === "person" && part.kind === "fixed") {
    return "coalesce(person.properties.email, person.properties.name, distinct_id) AS person";
  }
  if (part.kind === "fixed") return column;
  const prefix = part.kind === "event" ? EVENT_PROPERTY : PERSON_PROPERTY;
  return `${prefix}\`${part.name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}

/// An event's name for people; a nameless one is said to be so.
export function eventText(event: string): string {
  return event === "" ? "(no name)" : eventLabel(event);
}

/// The name of a person: e-mail, name, or the id the event came with.
export function personName(event: Pick<Event, "distinct_id" | "person">): string {
  const { email, name } = event.person?.properties ?? {};
  for (const candidate of [email, name]) {
    if (typeof candidate === "string" && candidate !== "") return candidate;
  }
  return event.distinct_id;
}

/// A value as one line of text.
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value === "" ? "“”" : value;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export type PersonValues = ReadonlyMap<string, Record<string, unknown>>;

export function cellOf(column: string, event: Event, people: PersonValues): ReactNode {
  const part = columnPart(column);
  if (!part) return null;
  if (part.kind === "fixed") {
    if (part.name === "event") return eventText(event.event);
    if (part.name === "timestamp") return <RelativeTime at={event.timestamp} />;
    if (part.name === "person") return <Text value={personName(event)} />;
    return <Text value={part.name === "uuid" ? event.id : event.distinct_id} />;
  }
  if (part.kind === "event") return <Text value={event.properties[part.name]} />;
  const values = people.get(event.id);
  return values ? <Text value={values[part.name]} /> : <span className="text-faint">…</span>;
}

function Text({ value }: { value: unknown }) {
  const text = valueText(value);
  const missing = value === null || value === undefined;
  return (
    <span
      title={text.length > 30 ? text : undefined}
      className={
        missing
          ? "text-faint"
          : `block max-w-72 truncate ${typeof value === "object" ? "font-mono text-xs" : ""}`
      }
    >
      {text}
    </span>
  );
}
