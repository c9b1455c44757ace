import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useDebounced } from "@/shell/useDebounced";
import { Combobox } from "@/ui";
import { type PersonItem, personSearchQuery } from "./personApi";

export interface PersonPickerProps {
  projectId: string;
  label: string;
  onChange: (person: PersonItem) => void;
  /// Persons that are not offered, by uuid.
  except?: readonly string[];
  chosen?: PersonItem | null;
  trigger?: ReactElement<Record<string, unknown>>;
  className?: string;
}

/// Chooses a person by name, e-mail address or distinct id.
export function PersonPicker({
  projectId,
  label,
  onChange,
  except = [],
  chosen = null,
  trigger,
  className,
}: PersonPickerProps) {
  const [text, setText] = useState("");
  const search = useDebounced(text.trim(), 150);
  const persons = useQuery(personSearchQuery(projectId, search));
  const found = (persons.data?.results ?? []).filter(({ uuid }) => !except.includes(uuid));
  return (
    <Combobox
      label={label}
      className={className}
      value={chosen?.uuid ?? null}
      valueLabel={chosen?.name}
      options={found.map(({ uuid, name, distinct_ids: ids }) => ({
        value: uuid,
        label: name,
        hint: ids[0] === name ? undefined : ids[0],
      }))}
      onChange={(uuid) => {
        const person = found.find((one) => one.uuid === uuid);
        if (person) onChange(person);
      }}
      onSearch={setText}
      loading={persons.isFetching}
      empty={persons.isFetching ? "Searching…" : "Nobody has this name, e-mail address or id."}
      trigger={trigger}
    />
  );
}
