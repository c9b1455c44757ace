import { parseValue } from "@/persons/propertyValue";
import { Field, Input, Select } from "@/ui";
import { choicesOf, type InsightVariable, valueTypeOf } from "./variableApi";

export interface VariableValueProps {
  /// As SQL names it.
  name: string;
  /// The project's variable, which has a type.
  variable: Pick<InsightVariable, "type" | "values">;
  /// Empty for none.
  text: string;
  /// What counts without a value, in words.
  fallback: string;
  onChange: (text: string) => void;
}

/// The value of a variable, unless its default counts.
export function VariableValue({ name, variable, text, fallback, onChange }: VariableValueProps) {
  const choices = choicesOf(variable);
  if (choices) {
    const options = text === "" || choices.includes(text) ? choices : [...choices, text];
    return (
      <Select
        label={`Value of ${name}`}
        size="sm"
        value={text}
        onChange={onChange}
        options={[
          { value: "", label: fallback },
          ...options.map((option) => ({ value: option, label: option })),
        ]}
      />
    );
  }
  const parsed = text === "" ? { value: null } : parseValue(valueTypeOf(variable.type), text);
  return (
    <Field
      label={`Value of ${name}`}
      hideLabel
      error={"error" in parsed ? parsed.error : null}
      className="w-44"
    >
      <Input
        className="h-7! min-h-7! text-[0.8125rem]"
        value={text}
        placeholder={fallback}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    </Field>
  );
}
