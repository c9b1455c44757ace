import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { ApiError, fieldError } from "@/api/errors";
import { editText, parseValue } from "@/persons/propertyValue";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, ErrorPanel, Field, Input, Select, Textarea } from "@/ui";
import {
  choicesOf,
  codeNameOf,
  type InsightVariable,
  placeholder,
  saveVariable,
  TYPES,
  type VariableFields,
  type VariableType,
  valueTypeOf,
  variablesKey,
} from "./variableApi";

const NAME_CHARS_MAX = 400;
const NONE = "";
const SHOWN_FIELDS = ["name", "default_value", "values"];

export interface VariableDialogProps {
  /// The variable to change; a new one without it.
  variable?: InsightVariable;
  initial?: { name: string; type: VariableType; text: string };
  onClose: () => void;
  onSaved?: (variable: InsightVariable) => void;
}

export function VariableDialog({ variable, initial, onClose, onSaved }: VariableDialogProps) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [name, setName] = useState(variable?.name ?? initial?.name ?? "");
  const [type, setType] = useState<VariableType>(variable?.type ?? initial?.type ?? "String");
  const [text, setText] = useState(
    variable ? editText(variable.default_value) : (initial?.text ?? ""),
  );
  const [options, setOptions] = useState((variable?.values ?? []).join("\n"));
  const values = optionsOf(options);
  const choices = choicesOf({ type, values });
  const parsed = text === "" ? { value: null } : parseValue(valueTypeOf(type), text);
  const wrong = "error" in parsed ? parsed.error : null;
  const save = useMutation({
    mutationFn: (fields: VariableFields) => saveVariable(projectId, variable?.id ?? null, fields),
    onSuccess: async (saved) => {
      await client.invalidateQueries({ queryKey: variablesKey(projectId) });
      onSaved?.(saved);
      onClose();
    },
  });
  const { error } = save;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if ("error" in parsed) return;
    save.mutate({
      name: name.trim(),
      type,
      default_value: type === "List" && !values.includes(text) ? null : parsed.value,
      values: type === "List" ? values : null,
    });
  };
  const codeName = variable?.code_name ?? codeNameOf(name.trim());
  const atField = error instanceof ApiError && SHOWN_FIELDS.includes(error.attr ?? "");
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={variable ? "Edit variable" : "New variable"}
      description="A value that SQL names, with a default for all insights of the project."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="variable" busy={save.isPending}>
            {variable ? "Save" : "Create variable"}
          </Button>
        </>
      }
    >
      <form id="variable" className="flex flex-col gap-3" onSubmit={submit}>
        {Boolean(error) && !atField && <ErrorPanel error={error} title="It was not saved" />}
        <Field
          label="Name"
          hint={
            codeName ? (
              <>
                SQL writes <code className="font-mono">{placeholder(codeName)}</code>
                {variable && ", also after a change of the name"}.
              </>
            ) : (
              "SQL writes it in lower case, with _ for spaces."
            )
          }
          error={fieldError(error, "name")}
        >
          <Input
            autoFocus
            required
            maxLength={NAME_CHARS_MAX}
            value={name}
            placeholder="Country"
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Type">
          <Select
            value={type}
            onChange={(next) => {
              setType(next);
              setText("");
            }}
            options={TYPES}
            className="w-full"
          />
        </Field>
        {type === "List" && (
          <Field label="Options" hint="One a line." error={fieldError(error, "values")}>
            <Textarea
              rows={4}
              required
              value={options}
              onChange={(event) => setOptions(event.currentTarget.value)}
            />
          </Field>
        )}
        <Field
          label="Default"
          hint="For insights and dashboards that give it no value of their own."
          error={wrong ?? fieldError(error, "default_value")}
        >
          {choices ? (
            <Select
              value={choices.includes(text) ? text : NONE}
              onChange={setText}
              options={[
                { value: NONE, label: "None" },
                ...choices.map((value) => ({ value, label: value })),
              ]}
              className="w-full"
            />
          ) : (
            <Input
              type={type === "Date" ? "date" : "text"}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}

function optionsOf(text: string): string[] {
  const lines = text.split("\n").map((line) => line.trim());
  return [...new Set(lines.filter(Boolean))];
}
