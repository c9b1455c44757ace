import { expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { describeEntry, type Entry, fieldLabel, SCOPES } from "./sentences";

const ann = {
  id: 1,
  uuid: "018dfa00-0000-7000-8000-000000000001",
  distinct_id: "ann",
  first_name: "Ann",
  last_name: "Ash",
  email: "ann@example.com",
  is_email_verified: true,
} satisfies Schemas["User"];

function entry(part: Partial<Entry>, changes: [string, unknown, unknown][] = []): Entry {
  return {
    id: "018dfa00-0000-7000-8000-000000000002",
    activity: "updated",
    scope: "Dashboard",
    item_id: "7",
    created_at: "2026-03-01T10:00:00Z",
    organization_id: "018dfa00-0000-7000-8000-000000000003",
    is_system: false,
    unread: false,
    user: ann,
    was_impersonated: false,
    ...part,
    detail: {
      name: "Growth",
      ...part.detail,
      changes: changes.map(([field, before, after]) => ({
        type: part.scope ?? "Dashboard",
        action: "changed",
        field,
        before,
        after,
      })),
    },
  };
}

function said(one: Entry): string {
  const { actor, verb, noun, name } = describeEntry(one);
  return `${actor} ${verb} ${noun} ${name}`.trim();
}

it("names who did what to which object", () => {
  expect(said(entry({ activity: "created" }))).toBe("Ann Ash created dashboard Growth");
  expect(said(entry({}, [["name", "A", "Growth"]]))).toBe(
    "Ann Ash changed the name of dashboard Growth",
  );
  expect(said(entry({ is_system: true, user: null, activity: "deleted" }))).toBe(
    "Hedgerow deleted dashboard Growth",
  );
});

it("lists at most three fields, and not those that always change", () => {
  const changes = ["name", "version", "tags", "filters", "description", "query"];
  expect(
    said(
      entry(
        {},
        changes.map((field) => [field, 1, 2]),
      ),
    ),
  ).toBe("Ann Ash changed the name, the tags, the conditions, and 2 more of dashboard Growth");
  expect(said(entry({}, [["version", 1, 2]]))).toBe("Ann Ash saved dashboard Growth");
});

it("says that a flag was switched", () => {
  const flag = { scope: "FeatureFlag", detail: { name: "beta" } as Entry["detail"] };
  expect(said(entry(flag, [["active", false, true]]))).toBe("Ann Ash switched on flag beta");
});

it("leads to the object unless it is gone", () => {
  expect(describeEntry(entry({})).path).toBe("dashboard/7");
  expect(describeEntry(entry({ activity: "deleted" })).path).toBeNull();
  expect(describeEntry(entry({ scope: "Group", item_id: "0:acme:eu" })).path).toBe(
    "groups/0/acme%3Aeu",
  );
  expect(describeEntry(entry({ scope: "Insight" })).path).toBeNull();
  expect(describeEntry(entry({ scope: "Unheard" })).noun).toBe("Unheard");
});

it("labels fields and scopes in words", () => {
  expect([fieldLabel("restriction_level"), fieldLabel("week_start_day"), fieldLabel(null)]).toEqual(
    ["who may edit", "week start day", "value"],
  );
  expect(Object.values(SCOPES).every(({ label, noun }) => label && noun)).toBe(true);
});
