/// Differences between two values of a field, for the activity log.

export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  text: string;
}

/// Longer values are shown whole, before and after: the comparison is quadratic.
const LINES_MAX = 400;
/// Unchanged lines around a change that stay.
const CONTEXT_LINES = 2;

/// A value as lines: text as it is, anything else as indented JSON.
export function linesOf(value: unknown): string[] {
  if (value === null || value === undefined) return [];
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.split("\n");
}

/// The longest common subsequence of the lines decides what was added and what removed.
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  const add = (kind: DiffLine["kind"], text: string) => lines.push({ kind, text });
  if (before.length > LINES_MAX || after.length > LINES_MAX) {
    for (const text of before) add("removed", text);
    for (const text of after) add("added", text);
    return lines;
  }
  // lengths[i][j]: common lines of before[i..] and after[j..].
  const lengths = Array.from({ length: before.length + 1 }, () =>
    new Array<number>(after.length + 1).fill(0),
  );
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0;
  for (let i = before.length - 1; i >= 0; i--) {
    const row = lengths[i] as number[];
    for (let j = after.length - 1; j >= 0; j--) {
      row[j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [old, next] = [before[i], after[j]];
    if (old !== undefined && old === next) {
      add("same", old);
      i += 1;
      j += 1;
    } else if (old !== undefined && (next === undefined || at(i + 1, j) >= at(i, j + 1))) {
      add("removed", old);
      i += 1;
    } else if (next !== undefined) {
      add("added", next);
      j += 1;
    }
  }
  return lines;
}

/// Leaves out long unchanged stretches.
export function foldSame(lines: readonly DiffLine[]): DiffLine[] {
  const near = lines.map((_, at) =>
    lines
      .slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1)
      .some(({ kind }) => kind !== "same"),
  );
  const folded: DiffLine[] = [];
  for (const [at, line] of lines.entries()) {
    if (near[at]) folded.push(line);
    else if (folded.at(-1)?.kind !== "gap") folded.push({ kind: "gap", text: "…" });
  }
  return folded;
}

/// Whether a value fits on a line, as "before → after".
export function isShort(value: unknown): boolean {
  return linesOf(value).length <= 1 && shortText(value).length <= 80;
}

export function shortText(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (value === "") return "empty";
  if (value === true) return "on";
  if (value === false) return "off";
  return typeof value === "string" ? value : JSON.stringify(value);
}
