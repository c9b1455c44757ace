import { useQuery } from "@tanstack/react-query";
import { UserRound } from "lucide-react";
import { useState } from "react";
import { actionsQuery, eventDefinitionsQuery } from "@/filters/definitions";
import { eventLabel } from "@/filters/operators";
import { useDebounced } from "@/shell/useDebounced";
import { Button, Chip, Combobox, type ComboboxGroup, Field, Input, Popover, Select } from "@/ui";
import { compact } from "@/ui/format";
import type { EventFilter } from "./eventList";

const ALL = "all:";
const EVENT = "event:";
const ACTION = "action:";

export interface EventChoiceProps {
  projectId: string;
  value: Pick<EventFilter, "event" | "action_id">;
  onChange: (value: Pick<EventFilter, "event" | "action_id">) => void;
  /// The live stream knows no actions.
  withActions?: boolean;
}

/// One event, one action, or all events.
export function EventChoice({ projectId, value, onChange, withActions = true }: EventChoiceProps) {
  const [search, setSearch] = useState("");
  const text = useDebounced(search, 150);
  const events = useQuery(eventDefinitionsQuery(projectId, text));
  const actions = useQuery({ ...actionsQuery(projectId), enabled: withActions });
  const needle = text.trim().toLowerCase();
  const found = (withActions ? (actions.data?.results ?? []) : []).filter(({ name }) =>
    (name ?? "").toLowerCase().includes(needle),
  );
  const groups: ComboboxGroup[] = [
    ...(needle === "" ? [{ heading: "Any", items: [{ value: ALL, label: "All events" }] }] : []),
    {
      heading: "Events, with their number of the last 30 days",
      items: (events.data?.results ?? []).map(({ name, volume_30_day }) => ({
        value: EVENT + name,
        label: eventLabel(name),
        hint: compact(volume_30_day),
      })),
    },
    {
      heading: "Actions",
      items: found.map(({ id, name }) => ({ value: ACTION + id, label: name ?? `Action ${id}` })),
    },
  ];
  const action = actions.data?.results.find(({ id }) => String(id) === value.action_id);
  const label = value.action_id
    ? (action?.name ?? `Action ${value.action_id}`)
    : value.event
      ? eventLabel(value.event)
      : "All events";
  return (
    <Combobox
      label="Event"
      className="max-w-60"
      value={value.action_id ? ACTION + value.action_id : value.event ? EVENT + value.event : ALL}
      valueLabel={label}
      options={groups.filter(({ items }) => items.length > 0)}
      onSearch={setSearch}
      loading={events.isFetching}
      empty="No event of this name was seen."
      onChange={(chosen) =>
        onChange({
          event: chosen.startsWith(EVENT) ? chosen.slice(EVENT.length) : undefined,
          action_id: chosen.startsWith(ACTION) ? chosen.slice(ACTION.length) : undefined,
        })
      }
    />
  );
}

export interface PersonChoiceProps {
  value: Pick<EventFilter, "distinct_id" | "person_id">;
  onChange: (value: Pick<EventFilter, "distinct_id" | "person_id">) => void;
  /// The live stream knows distinct ids only.
  withPersons?: boolean;
}

/// The events of one person: of one of their distinct ids, or of all of them.
export function PersonChoice({ value, onChange, withPersons = true }: PersonChoiceProps) {
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState("");
  const [kind, setKind] = useState<"distinct_id" | "person_id">("distinct_id");
  const label = value.distinct_id ?? value.person_id;
  if (label) {
    return (
      <Chip
        className="min-h-8"
        removeLabel="Remove the filter by person"
        onRemove={() => onChange({ distinct_id: undefined, person_id: undefined })}
      >
        <span className="text-muted">{value.distinct_id ? "Distinct id" : "Person"}</span> {label}
      </Chip>
    );
  }
  return (
    <Popover
      title="Events of one person"
      open={open}
      onOpenChange={setOpen}
      className="w-72"
      trigger={<Button icon={<UserRound aria-hidden />}>Person</Button>}
    >
      <form
        className="flex flex-col gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          const id = draft.trim();
          if (id) onChange({ distinct_id: undefined, person_id: undefined, [kind]: id });
          setOpen(false);
          setDraft("");
        }}
      >
        {withPersons && (
          <Select
            label="Kind of id"
            value={kind}
            onChange={setKind}
            options={[
              { value: "distinct_id", label: "Distinct id", hint: "As the app sent it" },
              { value: "person_id", label: "Person id", hint: "All distinct ids of the person" },
            ]}
          />
        )}
        <Field label={kind === "distinct_id" ? "Distinct id" : "Person id"} hideLabel={withPersons}>
          <Input
            value={draft}
            placeholder={kind === "distinct_id" ? "user-42" : "0191…-…"}
            onChange={(event) => setDraft(event.currentTarget.value)}
          />
        </Field>
        <Button type="submit" variant="primary" size="sm" className="self-end">
          Apply
        </Button>
      </form>
    </Popover>
  );
}
