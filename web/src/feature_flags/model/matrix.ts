/// The answer of a dry run, for people.

import type { Schemas } from "@/api/client";
import { exact } from "@/ui/format";

export type DryRun = Schemas["DryRun"];

export interface MatrixRow {
  from: string;
  to: string;
  count: number;
  /// Of all that were evaluated, from 0 to 1.
  share: number;
  examples: readonly string[];
}

/// Who changes, the most first, and who stays.
export function matrixRows({ matrix, subjects }: DryRun): {
  changed: MatrixRow[];
  same: MatrixRow[];
} {
  const rows = [...matrix]
    .sort((a, b) => b.count - a.count)
    .map((cell) => ({ ...cell, share: subjects === 0 ? 0 : cell.count / subjects }));
  return {
    changed: rows.filter(({ from, to }) => from !== to),
    same: rows.filter(({ from, to }) => from === to),
  };
}

/// As in "1,204 of 38,402: control → test".
export function rowSentence({ from, to, count }: MatrixRow, subjects: number): string {
  const values = from === to ? `stay ${from}` : `${from} → ${to}`;
  return `${exact(count)} of ${exact(subjects)}: ${values}`;
}

/// What the run says in one sentence.
export function summary(run: DryRun, noun: string): string {
  const { changed, subjects, total, complete } = run;
  if (subjects === 0 && complete) return `There are no ${noun} yet: nobody’s value changes.`;
  const who = complete
    ? `${exact(subjects)} ${noun}`
    : `the ${exact(subjects)} evaluated ${noun}${total ? ` (there are ${exact(total)})` : ""}`;
  return `${changed === 0 ? "None" : exact(changed)} of ${who} would get another value.`;
}
