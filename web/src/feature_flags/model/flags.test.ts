import { describe, expect, it } from "vitest";
import type { FlagCondition } from "../flagApi";
import { flagSnippets } from "./codeSnippets";
import {
  changeFields,
  creationFields,
  type DraftBase,
  decodeFlagDraft,
  encodeFlagDraft,
  type FlagDraft,
  newDraft,
  sameDraft,
  withKind,
  withoutBlankPayloads,
} from "./draft";
import { explanationTree, fits } from "./explanation";
import { matrixRows, rowSentence, summary } from "./matrix";
import { chooseMine, mergeDrafts } from "./merge";
import { problemsOf } from "./problems";
import { versionAfter } from "./restore";
import { changeSentences, mayChangeValues, PLAIN_NAMES } from "./sentences";
import { distribute, freeKey, sumOfShares } from "./variants";

const PRO: FlagCondition = {
  properties: [{ key: "plan", type: "person", operator: "exact", value: ["pro"] }],
  rollout_percentage: 50,
  variant: null,
  aggregation_group_type_index: null,
};

function flag(change: Partial<FlagDraft> = {}, groups: FlagCondition[] = [PRO]): FlagDraft {
  const draft = newDraft();
  return { ...draft, key: "beta", filters: { ...draft.filters, groups }, ...change };
}

function base(fields: FlagDraft, version = 3): DraftBase {
  return { version, fields };
}

describe("drafts in the URL", () => {
  const saved = flag();
  const draft = flag({ name: "Neü & #1", tags: ["a"] }, [{ ...PRO, rollout_percentage: 12.5 }]);

  it("come back as they were, with what they were made from", () => {
    const found = decodeFlagDraft(`#${encodeFlagDraft(base(saved), draft)}`, saved);
    expect(found?.draft).toEqual(draft);
    expect(found?.base).toEqual(base(saved));
  });

  it("keep the version they were made from when somebody saves meanwhile", () => {
    const fragment = encodeFlagDraft(base(saved), draft);
    const found = decodeFlagDraft(fragment, flag({ name: "theirs", active: false }));
    expect(found?.base.version).toBe(3);
    expect(found?.base.fields.name).toBe("");
    expect(found?.draft.active).toBe(false);
    expect(found?.draft.name).toBe("Neü & #1");
  });

  it("are nothing where nothing changed, and nothing that is no draft", () => {
    expect(encodeFlagDraft(base(saved), flag())).toBe("");
    for (const text of ["", "#q=", "#q=3", '#q={"v":1,"set":{"filters":{"groups":3}},"was":{}}']) {
      expect(decodeFlagDraft(text, saved)).toBeNull();
    }
  });

  it("hold no payload that is to be encrypted", () => {
    const secret = flag({
      is_remote_configuration: true,
      has_encrypted_payloads: true,
      filters: { ...saved.filters, payloads: { true: '"hunter2"' } },
    });
    expect(encodeFlagDraft(base(saved), secret)).not.toContain("hunter2");
  });
});

it("a save sends only what changed", () => {
  const draft = flag({ active: false });
  expect(changeFields(base(flag()), draft)).toEqual({ active: false });
  expect(creationFields(draft)).not.toHaveProperty("deleted");
});

it("a flag without empty keys is the same flag", () => {
  const { payloads: _, multivariate: __, ...filters } = flag().filters;
  expect(sameDraft(flag(), flag({ filters }))).toBe(true);
});

it("a blank payload is none", () => {
  const { filters } = flag();
  const blank = flag({ filters: { ...filters, payloads: { true: "" } } });
  expect(problemsOf(blank)).toEqual([]);
  expect(withoutBlankPayloads(blank).filters.payloads).toEqual({});
});

it("a kind takes what does not belong to it away", () => {
  const many = withKind(flag(), "multivariate");
  const overridden = flag({
    filters: {
      ...many.filters,
      groups: [{ ...PRO, variant: "test" }],
      payloads: { test: "1" },
    },
  });
  const plain = withKind(overridden, "boolean");
  expect(plain.filters).toMatchObject({ multivariate: null, payloads: {}, groups: [PRO] });
  expect(withKind(flag(), "remote").filters.groups).toMatchObject([{ rollout_percentage: 100 }]);
});

describe("sentences", () => {
  const said = (before: FlagDraft, after: FlagDraft) => changeSentences(before, after, PLAIN_NAMES);

  it("name what changes in a condition", () => {
    expect(said(flag(), flag({}, [{ ...PRO, rollout_percentage: 80 }]))).toEqual([
      "Condition 1: rollout 50% → 80%.",
    ]);
    const team: FlagCondition["properties"] = [
      { key: "plan", type: "person", operator: "exact", value: ["team"] },
    ];
    expect(said(flag(), flag({}, [{ ...PRO, properties: team }]))).toEqual([
      "Condition 1: “plan is team” in place of “plan is pro”.",
    ]);
  });

  it("tell new, removed and moved conditions apart", () => {
    const all: FlagCondition = { ...PRO, properties: [], rollout_percentage: 10 };
    expect(said(flag(), flag({}, [PRO, all]))).toEqual(["New condition 2: 10% of persons."]);
    expect(said(flag({}, [PRO, all]), flag())).toEqual(["Condition 2 goes: 10% of persons."]);
    expect(said(flag({}, [PRO, all]), flag({}, [{ ...PRO, rollout_percentage: 80 }, all]))).toEqual(
      ["Condition 1: rollout 50% → 80%."],
    );
    expect(said(flag({}, [PRO, all]), flag({}, [all, PRO]))).toEqual([
      "The conditions stand in another order; the first that matches decides.",
    ]);
  });

  it("name variants, payloads and the switch", () => {
    const many = withKind(flag(), "multivariate");
    const [control, test] = many.filters.multivariate?.variants ?? [];
    const other = {
      ...many,
      active: false,
      filters: {
        ...many.filters,
        payloads: { test: "1" },
        multivariate: {
          variants: [
            { ...control, key: "control", rollout_percentage: 40 },
            { ...test, key: "test", rollout_percentage: 60 },
          ],
        },
      },
    };
    expect(said(many, other)).toEqual([
      "The flag is switched off: everybody gets false.",
      "Variant control: 50% → 40%.",
      "Variant test: 50% → 60%.",
      "The payload of test is new.",
    ]);
  });

  it("quote a new description, cut when it is long", () => {
    expect(said(flag(), flag({ name: "For friends" }))).toEqual([
      "The description becomes “For friends”.",
    ]);
    const leaves = (count: number) => "🌿".repeat(count);
    expect(said(flag(), flag({ name: leaves(500) }))).toEqual([
      `The description becomes “${leaves(120)}…”.`,
    ]);
  });

  it("are none for the same flag", () => {
    expect(said(flag(), flag())).toEqual([]);
  });
});

it("a description or a payload changes nobody's value, a share does", () => {
  const payload = flag({ filters: { ...flag().filters, payloads: { true: "1" } } });
  expect(mayChangeValues(["name", "tags"], flag(), flag())).toBe(false);
  expect(mayChangeValues(["filters"], flag(), payload)).toBe(false);
  const share = flag({}, [{ ...PRO, rollout_percentage: 51 }]);
  expect(mayChangeValues(["filters"], flag(), share)).toBe(true);
});

describe("the matrix", () => {
  const run = {
    subjects: 38_402,
    total: 38_402,
    complete: true,
    changed: 1_204,
    matrix: [
      { from: "test", to: "test", count: 37_198, examples: [] },
      { from: "control", to: "test", count: 1_204, examples: ["ann"] },
    ],
  };

  it("has those who change before those who stay", () => {
    const { changed, same } = matrixRows(run);
    expect(changed.map((row) => rowSentence(row, run.subjects))).toEqual([
      "1,204 of 38,402: control → test",
    ]);
    expect(same.map(({ count }) => count)).toEqual([37_198]);
    expect(summary(run, "persons")).toBe("1,204 of 38,402 persons would get another value.");
  });

  it("says what was not evaluated", () => {
    const part = { ...run, complete: false, subjects: 2_000, total: 38_402 };
    expect(summary(part, "persons")).toBe(
      "1,204 of the 2,000 evaluated persons (there are 38,402) would get another value.",
    );
  });
});

it("two edits merge by part, and clash only where both changed the same", () => {
  const was = flag();
  const mine = flag({ name: "mine", tags: ["mine"] }, [{ ...PRO, rollout_percentage: 60 }]);
  const theirs = flag({
    tags: ["theirs"],
    filters: { ...was.filters, payloads: { true: "1" } },
  });
  const { merged, clashes } = mergeDrafts(was, mine, theirs);
  expect(clashes.map(({ part }) => part)).toEqual(["tags"]);
  expect(merged.name).toBe("mine");
  expect(merged.tags).toEqual(["theirs"]);
  expect(merged.filters).toMatchObject({
    payloads: { true: "1" },
    groups: [{ rollout_percentage: 60 }],
  });
  expect(chooseMine(merged, clashes, new Set(["tags"])).tags).toEqual(["mine"]);
});

it("an older version is what later entries changed, taken back", () => {
  const entry = (field: string, before: unknown) => ({
    detail: {
      changes: [
        { type: "FeatureFlag", action: "changed" as const, field, before, after: null },
        { type: "FeatureFlag", action: "changed" as const, field: "version", before: 1, after: 2 },
      ],
      merge: null,
      trigger: null,
    },
  });
  const version = versionAfter(flag({ active: false, tags: ["b"] }), [
    entry("active", true),
    entry("tags", null),
  ]);
  expect(version).toEqual(flag({ active: true, tags: [] }));
});

it("steps become flags, conditions and checks with what was wanted", () => {
  const tree = explanationTree(
    [
      { step: "flag", key: "base" },
      { step: "condition", index: 0, result: "condition_match" },
      { step: "flag", key: "beta" },
      { step: "property", key: "plan", operator: "exact", found: "pro", fits: true },
      { step: "hash", purpose: "rollout", identifier: "ann", value: 0.7, bound: 0.5 },
      { step: "condition", index: 0, result: "out_of_rollout_bound" },
      { step: "condition", index: 1, result: "condition_match" },
      { step: "hash", purpose: "variant", identifier: "ann", value: 0.2, bound: 0.5 },
    ],
    (key) => (key === "beta" ? flag().filters : undefined),
  );
  expect(tree.map(({ key }) => key)).toEqual(["base", "beta"]);
  const [first] = tree[1]?.conditions ?? [];
  expect(first?.checks.map(fits)).toEqual([true, false]);
  expect(first?.checks[0]?.wanted?.value).toEqual(["pro"]);
  expect(tree[1]?.last).toHaveLength(1);
});

it("shares are distributed to 100", () => {
  const three = ["a", "b", "c"].map((key) => ({ key, rollout_percentage: 0 }));
  expect(distribute(three).map((variant) => variant.rollout_percentage)).toEqual([34, 33, 33]);
  expect(sumOfShares(distribute(three))).toBe(100);
  expect(freeKey([{ key: "variant-1", rollout_percentage: 1 }])).toBe("variant-2");
});

it("problems stand where they are", () => {
  const many = withKind(flag({ key: "a b" }), "multivariate");
  const [one] = many.filters.multivariate?.variants ?? [];
  const bad: FlagDraft = {
    ...many,
    filters: {
      ...many.filters,
      payloads: { control: "{" },
      multivariate: { variants: one ? [one] : [] },
      groups: [{ ...PRO, properties: [{ key: "plan", type: "person", operator: "exact" }] }],
    },
  };
  expect(problemsOf(bad).map(({ at }) => at)).toEqual([
    "key",
    "variants",
    "payload.control",
    "condition.0",
  ]);
  expect(problemsOf(flag())).toEqual([]);
});

it("code asks for a variant where there are some", () => {
  const options = { host: "https://h", projectKey: "phc_1", projectId: "1" };
  const many = withKind(flag(), "multivariate");
  expect(flagSnippets("web", { ...options, flag: many })[0]?.code).toContain('=== "test"');
  expect(flagSnippets("web", { ...options, flag: flag() })[0]?.code).toContain("isFeatureEnabled");
});
