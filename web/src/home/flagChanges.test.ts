import { expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { describeFlagChange } from "./flagChanges";

const entry = (activity: string, ...changes: object[]) =>
  ({ activity, detail: { changes } }) as unknown as Schemas["Entry"];
const group = (rollout: number | null) => ({ groups: [{ rollout_percentage: rollout }] });

it("flag changes are sentences", () => {
  const version = { field: "version", before: 1, after: 2 };
  expect(describeFlagChange(entry("created"))).toBe("created");
  expect(describeFlagChange(entry("updated", { field: "active", after: false }, version))).toBe(
    "switched off",
  );
  const filters = { field: "filters", before: group(20), after: group(50) };
  expect(describeFlagChange(entry("updated", filters, version))).toBe(
    "changed the rollout from 20% to 50% of",
  );
  expect(describeFlagChange(entry("updated", filters, { field: "tags" }))).toBe(
    "changed the conditions and the tags of",
  );
  expect(describeFlagChange(entry("updated", version))).toBe("saved");
});
