import { expect, it } from "vitest";
import { codeNameOf, placeholder } from "./variableApi";

it.each([
  ["Plan", "plan"],
  ["Least amount (€)", "least_amount_"],
  ["größe 2", "größe_2"],
  ["-", ""],
])("SQL writes the variable %s as %s", (name, expected) => {
  expect(codeNameOf(name)).toBe(expected);
});

it("a name that is no word stands in backticks", () => {
  expect(placeholder("plan")).toBe("{variables.plan}");
  expect(placeholder("90_days")).toBe("{variables.`90_days`}");
});
