/// A group's own name, or its key.
export function groupName(key: string, properties: Readonly<Record<string, unknown>>): string {
  const { name } = properties;
  return typeof name === "string" && name !== "" ? name : key;
}
