import { expect, it } from "vitest";
import { copyOutcome, restoringTags, tagsAfter } from "./severalFlags";

it("tells of each flag in each project what became of it", () => {
  const copied = { id: 7, key: "a", name: "", active: false, team_id: 2 };
  const outcome = copyOutcome(
    [
      ["a", { success: [copied], failed: [{ project_id: 3, error_message: "no cohort" }] }],
      ["b", "Not found."],
    ],
    [2, 3],
  );
  expect(outcome.copied).toEqual([copied]);
  expect(outcome.failed).toEqual([
    { key: "a", projectId: 3, reason: "no cohort" },
    { key: "b", projectId: 2, reason: "Not found." },
    { key: "b", projectId: 3, reason: "Not found." },
  ]);
});

it("adds, removes and replaces tags as the server does", () => {
  expect(tagsAfter(["a", "b"], "add", ["b", "c"])).toEqual(["a", "b", "c"]);
  expect(tagsAfter(["a", "b"], "remove", ["b", "c"])).toEqual(["a"]);
  expect(tagsAfter(["a", "b"], "set", [])).toEqual([]);
});

it("gives tags back with one request for each set of tags", () => {
  const flags = [
    { id: 1, tags: ["a"] },
    { id: 2, tags: [] },
    { id: 3, tags: ["a"] },
  ];
  expect(restoringTags(flags)).toEqual([
    { ids: [1, 3], tags: ["a"] },
    { ids: [2], tags: [] },
  ]);
});
