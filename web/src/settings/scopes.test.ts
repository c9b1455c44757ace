import { expect, it } from "vitest";
import { accessTo, describeScopes, OBJECTS, presetOf, readScopes, withAccess } from "./scopes";

it("knows presets again", () => {
  expect([["*"], readScopes(), ["dashboard:read"], []].map(presetOf)).toEqual([
    "all",
    "read",
    "chosen",
    "chosen",
  ]);
});

it("writing includes reading, and all includes each", () => {
  expect([
    accessTo(["dashboard:write"], "dashboard"),
    accessTo(["dashboard:read"], "dashboard"),
    accessTo(["dashboard:read"], "insight"),
    accessTo(["*"], "insight"),
  ]).toEqual(["write", "read", "none", "write"]);
});

it("changes one object and leaves the others, also unknown ones", () => {
  expect(withAccess(["survey:read", "dashboard:read"], "dashboard", "write")).toEqual([
    "survey:read",
    "dashboard:write",
  ]);
  expect(withAccess(["dashboard:write"], "dashboard", "none")).toEqual([]);
});

it("describes scopes in words", () => {
  expect(describeScopes(["dashboard:read", "feature_flag:write", "survey:read"])).toBe(
    "Reads dashboards, survey; changes feature flags",
  );
  expect([describeScopes(["*"]), describeScopes(readScopes()), describeScopes([])]).toEqual([
    "Everything",
    "Reads everything",
    "Nothing",
  ]);
  expect(new Set(OBJECTS.map(({ object }) => object)).size).toBe(OBJECTS.length);
});
