import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const SOURCES = join(import.meta.dirname, "..");
const GENERATED = join(import.meta.dirname, "schema.d.ts");
/// Types of this interface that share their name with one of the API.
const OWN = ["Answered", "Breakdown", "FunnelStep"];

function schemaNames(): string[] {
  const [, schemas = ""] = readFileSync(GENERATED, "utf8").split("    schemas: {");
  return [...schemas.matchAll(/^ {8}(\w+): /gm)].map(([, name = ""]) => name);
}

/// The types that the sources declare, with what stands after the equals sign.
function declaredTypes(): { file: string; name: string; value: string }[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => /(?<!\.d)\.tsx?$/.test(file))
    .flatMap((file) => {
      const text = readFileSync(join(SOURCES, file), "utf8");
      const found = text.matchAll(/^(?:export )?(?:interface|type) (\w+)[^={]*(?:=\s*(.*))?/gm);
      return [...found].map(([, name = "", value = ""]) => ({ file, name, value }));
    });
}

it("types of the API are generated, not written by hand", () => {
  const names = new Set(schemaNames());
  expect(names.size).toBeGreaterThan(200);
  const written = declaredTypes().filter(
    ({ name, value }) => names.has(name) && !value.startsWith("Schemas[") && !OWN.includes(name),
  );
  expect(written).toEqual([]);
});
