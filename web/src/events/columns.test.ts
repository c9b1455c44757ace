import { describe, expect, it } from "vitest";
import { columnExpression, columnLabel, columnPart, personName, valueText } from "./columns";

describe("columns", () => {
  it("tell properties of events and persons apart", () => {
    expect(columnPart("properties.$browser")).toEqual({ kind: "event", name: "$browser" });
    expect(columnPart("person.properties.plan")).toEqual({ kind: "person", name: "plan" });
    expect(columnPart("timestamp")).toEqual({ kind: "fixed", name: "timestamp" });
    expect(columnPart("properties.")).toBeNull();
    expect(columnPart("anything")).toBeNull();
  });

  it("are named in words", () => {
    expect(columnLabel("properties.$current_url")).toBe("Current URL");
    expect(columnLabel("person.properties.plan")).toBe("Person: plan");
  });

  it("quote property names in HogQL", () => {
    expect(columnExpression("properties.my`prop")).toBe("properties.`my\\`prop`");
    expect(columnExpression("person.properties.plan")).toBe("person.properties.`plan`");
  });
});

describe("personName", () => {
  const event = { distinct_id: "u1", person: null };
  it("prefers the e-mail, then the name, then the id", () => {
    const person = (properties: Record<string, unknown>) => ({
      distinct_id: "u1",
      person: { distinct_ids: ["u1"], is_identified: true, properties },
    });
    expect(personName(person({ email: "ann@example.com", name: "Ann" }))).toBe("ann@example.com");
    expect(personName(person({ email: "", name: "Ann" }))).toBe("Ann");
    expect(personName(event)).toBe("u1");
  });
});

describe("valueText", () => {
  it("is one line for every value", () => {
    expect([null, "", false, 2.5, [1, { a: null }]].map(valueText)).toEqual([
      "–",
      "“”",
      "false",
      "2.5",
      '[1,{"a":null}]',
    ]);
  });
});
