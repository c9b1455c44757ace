import { useQuery } from "@tanstack/react-query";
import { Braces } from "lucide-react";
import { useState } from "react";
import { VariableValue } from "@/insight_variables/VariableValue";
import { valueTypeOf, variablesQuery } from "@/insight_variables/variableApi";
import { parseValue } from "@/persons/propertyValue";
import { useProject } from "@/shell/useProject";
import { Badge, Button, Popover } from "@/ui";
import type { VariableValues } from "./variables";

export interface VariableControlsProps {
  /// As SQL names them.
  names: readonly string[];
  saved: VariableValues;
  /// Those of the URL.
  given: VariableValues;
  onChange: (given: VariableValues | undefined) => void;
}

/// Values for the variables of a dashboard's SQL, for all its tiles.
export function VariableControls({ names, saved, given, onChange }: VariableControlsProps) {
  const shown = { ...saved, ...given };
  const count = names.filter((name) => (shown[name] ?? null) !== null).length;
  return (
    <Popover
      title="Variables of all SQL here"
      className="w-80"
      trigger={
        <Button icon={<Braces aria-hidden />}>
          Variables
          {count > 0 && <Badge tone="accent">{count}</Badge>}
        </Button>
      }
    >
      <Values names={names} saved={saved} given={given} onChange={onChange} />
    </Popover>
  );
}

function Values({ names, saved, given, onChange }: VariableControlsProps) {
  const { projectId } = useProject();
  const known = useQuery(variablesQuery(projectId)).data;
  /// What is typed and is no value yet.
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const set = (name: string, value: VariableValues[string]) => {
    const { [name]: _, ...others } = given;
    // Nothing hides a saved value; where none is saved it says nothing.
    const next = value === null && !(name in saved) ? others : { ...others, [name]: value };
    onChange(Object.keys(next).length > 0 ? next : undefined);
  };
  return (
    <ul className="flex flex-col gap-2">
      {names.map((name) => {
        const variable = known?.find(({ code_name: codeName }) => codeName === name);
        const own = given[name] === undefined ? saved[name] : given[name];
        const type = variable
          ? valueTypeOf(variable.type)
          : typeof own === "number"
            ? "number"
            : "text";
        return (
          <li key={name} className="flex items-start justify-between gap-3">
            <span className="min-w-0 pt-1 wrap-anywhere">{variable?.name ?? name}</span>
            <VariableValue
              name={name}
              variable={variable ?? { type: type === "number" ? "Number" : "String", values: null }}
              text={typed[name] ?? String(own ?? "")}
              fallback="Each insight's own"
              onChange={(text) => {
                const parsed = text === "" ? { value: null } : parseValue(type, text);
                const isValue = "value" in parsed;
                setTyped(({ [name]: _, ...others }) =>
                  isValue ? others : { ...others, [name]: text },
                );
                if (isValue) set(name, parsed.value as VariableValues[string]);
              }}
            />
          </li>
        );
      })}
    </ul>
  );
}
