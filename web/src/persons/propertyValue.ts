/// Values of properties as they are edited: a type and a text.

export type ValueType = "text" | "number" | "boolean" | "null" | "json";

export const VALUE_TYPES: readonly { value: ValueType; label: string }[] = [
  { value: "text", label: "Text" },
  { value: "number", label: "Number" },
  { value: "boolean", label: "Yes or no" },
  { value: "json", label: "JSON" },
  { value: "null", label: "Null" },
];

export function valueType(value: unknown): ValueType {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return "number";
  if (typeof value === "boolean") return "boolean";
  return typeof value === "string" ? "text" : "json";
}

/// The text in which a value is edited.
export function editText(value: unknown): string {
  const type = valueType(value);
  if (type === "null") return "";
  return type === "json" ? JSON.stringify(value, null, 2) : String(value);
}

export type Parsed = { value: unknown } | { error: string };

/// The value that a text means, or why it means none.
export function parseValue(type: ValueType, text: string): Parsed {
  switch (type) {
    case "null":
      return { value: null };
    case "text":
      return { value: text };
    case "boolean":
      return text === "true" || text === "false"
        ? { value: text === "true" }
        : { error: "Choose yes or no." };
    case "number": {
      const value = Number(text);
      return text.trim() !== "" && Number.isFinite(value)
        ? { value }
        : { error: "This is not a number." };
    }
    case "json":
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return { error: "This is not valid JSON." };
      }
  }
}

/// The text after a change of the type: what fits is kept.
export function textFor(type: ValueType, text: string): string {
  if (type === "boolean") return text === "false" ? "false" : "true";
  if (type === "json" && text !== "") {
    try {
      JSON.parse(text);
    } catch {
      return JSON.stringify(text);
    }
  }
  return type === "null" ? "" : text;
}
