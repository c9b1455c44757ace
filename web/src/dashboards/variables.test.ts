import { expect, it } from "vitest";
import { valuesOf, variablesOf } from "./variables";

const saved = {
  "018d-plan": { code_name: "plan", value: "pro" },
  "018d-least": { code_name: "least", value: 3 },
};

it("variables in the URL win over the saved ones, each by itself", () => {
  expect(valuesOf(saved)).toEqual({ plan: "pro", least: 3 });
  expect(variablesOf({}, saved)).toEqual(saved);
  const variables = { plan: null, country: "DE" };
  expect(variablesOf({ variables }, saved)).toEqual({
    "018d-least": saved["018d-least"],
    country: { code_name: "country", value: "DE" },
  });
  expect(variablesOf({ variables: { plan: "free" } }, saved)).toMatchObject({
    plan: { value: "free" },
  });
});
