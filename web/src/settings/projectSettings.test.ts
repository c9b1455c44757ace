import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ELSEWHERE, GROUPS, linesValue, readLines } from "./projectSettings";

const SCHEMA = readFileSync(join(import.meta.dirname, "../api/schema.d.ts"), "utf8");

function fieldsOf(name: string): string[] {
  const [, rest = ""] = SCHEMA.split(`        ${name}: {\n`);
  const [body = ""] = rest.split("\n        };");
  return [...body.matchAll(/^ {12}(\w+)\??:/gm)].map(([, field = ""]) => field);
}

it("every setting of the API can be changed here, or is named with where it is changed", () => {
  const known = [...fieldsOf("ProjectFields"), ...fieldsOf("ProjectSettingsChange")].sort();
  expect(known.length).toBeGreaterThan(30);
  const shown = GROUPS.flatMap(({ settings }) => settings.map(({ key }) => key as string));
  expect([...shown, ...Object.keys(ELSEWHERE)].sort()).toEqual(known);
});

it("reads and writes one text a line", () => {
  expect(readLines(" a \n\nb\n")).toEqual(["a", "b"]);
  expect([linesValue(["a", "b"]), linesValue(null)]).toEqual(["a\nb", ""]);
});
