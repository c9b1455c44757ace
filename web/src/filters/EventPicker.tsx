import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Combobox, type ComboboxGroup, type ComboboxOption } from "@/ui";
import { compact } from "@/ui/format";
import { actionsQuery, eventDefinitionsQuery } from "./definitions";
import { eventLabel } from "./operators";

/// An event by name (null for all events), or an action.
export type EventChoice =
  | { kind: "event"; event: string | null }
  | { kind: "action"; id: number; name: string };

export interface EventPickerProps {
  label?: string;
  value: EventChoice | null;
  onChange: (choice: EventChoice) => void;
  /// Offers "All events".
  allowAll?: boolean;
  allowActions?: boolean;
  disabled?: boolean;
  size?: "sm" | "md";
  className?: string;
  trigger?: ReactElement<Record<string, unknown>>;
}

const ALL = "all";

function choiceValue(choice: EventChoice | null): string | null {
  if (!choice) return null;
  if (choice.kind === "action") return `action:${choice.id}`;
  return choice.event === null ? ALL : `event:${choice.event}`;
}

/// Chooses an event, with its volume of the last 30 days, or an action.
export function EventPicker({
  label = "Event",
  value,
  onChange,
  allowAll = true,
  allowActions = true,
  ...rest
}: EventPickerProps) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const search = useDebounced(text.trim(), 120);
  const events = useQuery(eventDefinitionsQuery(projectId, search));
  const actions = useQuery({ ...actionsQuery(projectId), enabled: allowActions });

  const has = (name: string) => name.toLowerCase().includes(text.trim().toLowerCase());
  const groups: ComboboxGroup[] = [];
  const eventItems: ComboboxOption[] = (events.data?.results ?? []).map((definition) => ({
    value: `event:${definition.name}`,
    label: eventLabel(definition.name),
    hint: `${compact(definition.volume_30_day)} in 30 days`,
  }));
  if (allowAll && has("All events")) eventItems.unshift({ value: ALL, label: "All events" });
  const typed = text.trim();
  const known = eventItems.some(
    (item) => item.value === `event:${typed}` || item.label.toLowerCase() === typed.toLowerCase(),
  );
  if (typed && !known && !events.isFetching) {
    eventItems.push({ value: `event:${typed}`, label: typed, hint: "not seen yet" });
  }
  if (eventItems.length > 0) groups.push({ heading: "Events", items: eventItems });
  const actionItems = (actions.data?.results ?? [])
    .filter(({ name }) => has(name))
    .map(({ id, name }) => ({ value: `action:${id}`, label: name }));
  if (actionItems.length > 0) groups.push({ heading: "Actions", items: actionItems });

  const choose = (next: string) => {
    if (next === ALL) return onChange({ kind: "event", event: null });
    const [kind, ...parts] = next.split(":");
    const name = parts.join(":");
    if (kind === "action") {
      const action = actions.data?.results.find(({ id }) => String(id) === name);
      return onChange({ kind: "action", id: Number(name), name: action?.name ?? name });
    }
    onChange({ kind: "event", event: name });
  };
  const chosen =
    value === null
      ? undefined
      : value.kind === "event"
        ? eventLabel(value.event)
        : (actions.data?.results.find(({ id }) => id === value.id)?.name ?? value.name);
  return (
    <Combobox
      {...rest}
      label={label}
      options={groups}
      value={choiceValue(value)}
      valueLabel={chosen}
      onChange={choose}
      onSearch={setText}
      loading={events.isFetching}
      empty={
        events.isError
          ? "The events could not be loaded."
          : typed
            ? "No event has this in its name."
            : "No event has arrived yet."
      }
    />
  );
}
