import { expect, it } from "vitest";
import { diffLines, foldSame, isShort, linesOf, shortText } from "./diff";

const marks = { same: " ", added: "+", removed: "-", gap: "~" };
const draw = (before: unknown, after: unknown) =>
  foldSame(diffLines(linesOf(before), linesOf(after)))
    .map(({ kind, text }) => marks[kind] + text)
    .join("\n");

it("shows the lines that changed and two around them", () => {
  const before = Array.from({ length: 20 }, (_, at) => `line ${at}`).join("\n");
  expect(draw(before, before.replace("line 10\n", "line ten\n"))).toBe(
    "~…\n line 8\n line 9\n-line 10\n+line ten\n line 11\n line 12\n~…",
  );
});

it("compares objects line by line", () => {
  expect(draw({ groups: [{ rollout: 20 }] }, { groups: [{ rollout: 50 }] })).toContain(
    '-      "rollout": 20\n+      "rollout": 50',
  );
});

it("finds lines that were added or removed at the ends", () => {
  expect(draw("a\nb", "b\nc")).toBe("-a\n b\n+c");
  expect(draw(null, "a")).toBe("+a");
  expect(draw("a", null)).toBe("-a");
});

it("gives up comparing very long values", () => {
  const long = Array.from({ length: 1_000 }, (_, at) => String(at)).join("\n");
  expect(diffLines(linesOf(long), linesOf(long))).toHaveLength(2_000);
});

it("writes short values on one line", () => {
  expect([null, "", true, 5, ["a"]].map(shortText)).toEqual([
    "nothing",
    "empty",
    "on",
    "5",
    '["a"]',
  ]);
  expect([isShort("text"), isShort("two\nlines"), isShort({ a: 1 })]).toEqual([true, false, false]);
});
