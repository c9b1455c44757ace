/// The steps of an evaluation as a tree: flags, their conditions, and what each compares.

import type { Schemas } from "@/api/client";
import type { PropertyFilter } from "@/filters/types";
import type { FlagFilters } from "../flagApi";
import { conditionsOf } from "./draft";

export type EvaluationStep = Schemas["EvaluationStep"];
type StepOf<Kind extends EvaluationStep["step"]> = Extract<EvaluationStep, { step: Kind }>;

export type Check = Exclude<EvaluationStep, StepOf<"flag"> | StepOf<"condition">> & {
  /// What the condition asks for, where it is known.
  wanted?: PropertyFilter;
};

export interface ConditionNode {
  index: number;
  /// A reason's code, such as `condition_match`.
  result: string;
  checks: Check[];
}

export interface FlagNode {
  key: string;
  /// What is looked at before the conditions, such as a holdout.
  first: Check[];
  conditions: ConditionNode[];
  /// What is looked at after them: the variant.
  last: Check[];
}

/// Flags in the order of evaluation: those that the last one depends on come before it.
export function explanationTree(
  steps: readonly EvaluationStep[],
  filtersOf: (key: string) => FlagFilters | undefined,
): FlagNode[] {
  const flags: FlagNode[] = [];
  let checks: Check[] = [];
  const close = () => {
    const flag = flags.at(-1);
    if (flag) (flag.conditions.length > 0 ? flag.last : flag.first).push(...checks);
    checks = [];
  };
  for (const step of steps) {
    if (step.step === "flag") {
      close();
      flags.push({ key: step.key, first: [], conditions: [], last: [] });
    } else if (step.step === "condition") {
      const flag = flags.at(-1);
      if (!flag) continue;
      const holdout = checks.filter(isHoldout);
      flag.first.push(...holdout);
      const own = checks.filter((check) => !isHoldout(check));
      const wanted = conditionsOf(filtersOf(flag.key) ?? {})[step.index]?.properties ?? [];
      const { index, result } = step;
      flag.conditions.push({ index, result, checks: withWanted(own, wanted) });
      checks = [];
    } else {
      checks.push(step);
    }
  }
  close();
  return flags;
}

function isHoldout(check: Check): boolean {
  return check.step === "hash" && check.purpose === "holdout";
}

/// Conditions compare in the order of their filters, and stop at the first that does not fit.
function withWanted(checks: readonly Check[], wanted: readonly PropertyFilter[]): Check[] {
  let from = 0;
  return checks.map((check) => {
    const at = wanted.findIndex((filter, index) => index >= from && isAbout(filter, check));
    if (at < 0) return check;
    from = at + 1;
    return { ...check, wanted: wanted[at] };
  });
}

function isAbout(filter: PropertyFilter, check: Check): boolean {
  const isCohort = filter.type === "cohort" || filter.type === "static-cohort";
  switch (check.step) {
    case "property":
      return !isCohort && filter.type !== "flag" && String(filter.key) === check.key;
    case "cohort":
      return isCohort && Number(filter.value) === check.id;
    case "dependency":
      return filter.type === "flag" && Number(filter.key) === check.id;
    default:
      return false;
  }
}

/// Whether a check speaks for the condition; null where it decides nothing by itself.
export function fits(check: Check): boolean | null {
  switch (check.step) {
    case "property":
    case "dependency":
      return check.fits;
    case "cohort":
      return check.member !== (check.wanted?.operator === "not_in");
    case "hash":
      return check.purpose === "variant" ? null : check.value <= check.bound;
  }
}

const RESULTS: Record<string, string> = {
  condition_match: "matches",
  no_condition_match: "does not match",
  out_of_rollout_bound: "matches, but outside the rollout",
  no_group_type: "no group of its type was given",
};

export function resultLabel(code: string): string {
  return RESULTS[code] ?? code.replaceAll("_", " ");
}

/// Why a flag has its value, in the words of the editor.
export function reasonText(evaluation: Schemas["Evaluation"]): string {
  const { reason, condition_index: index, description } = evaluation;
  switch (reason) {
    case "condition_match":
      return typeof index === "number" ? `By condition ${index + 1}` : description;
    case "no_condition_match":
      // It may go on, as in "; conditions on groups were skipped".
      return description.replace("No matching condition set", "No condition matched");
    case "out_of_rollout_bound":
      return "Outside the rollout";
    case "disabled":
    case "flag_disabled":
      return "The flag is off";
    default:
      return description;
  }
}

/// The reason has a code of its own where no condition was looked at.
export function isOff({ reason }: Schemas["Evaluation"]): boolean {
  return reason === "disabled" || reason === "flag_disabled";
}

/// A hash or a bound, from 0 to 1, as a percentage with enough digits to compare.
export function hashText(value: number): string {
  return `${(value * 100).toFixed(3).replace(/\.?0+$/, "")}%`;
}
