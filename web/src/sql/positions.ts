/// Places in a statement: the server counts characters, the editor UTF-16 units.

export interface SqlProblem {
  /// In UTF-16 units.
  from: number;
  to: number;
  message: string;
  /// What to put in place of the text.
  fix: string | null;
}

/// The offset of a number of characters.
export function offsetOf(text: string, characters: number): number {
  let offset = 0;
  for (let passed = 0; passed < characters && offset < text.length; passed++) {
    offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
  }
  return offset;
}

const WORD = /^[\w$]+|^\S/;
const PLACE = / \(at line (\d+), column (\d+)\)\.?$/;

/// The word at an offset; at the end of the statement the last character.
function wordAt(text: string, from: number): { from: number; to: number } {
  const word = WORD.exec(text.slice(from))?.[0];
  if (word) return { from, to: from + word.length };
  const before = text.slice(0, from).trimEnd().length;
  return { from: Math.max(0, before - 1), to: Math.max(before, 1) };
}

/// The problem that an error names by line and column, both from 1; null where it names no place.
export function problemOf(text: string, detail: string): SqlProblem | null {
  const found = PLACE.exec(detail);
  if (!found) return null;
  const lines = text.split("\n");
  const line = Math.min(Number(found[1]), lines.length);
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const at = before + offsetOf(lines[line - 1] ?? "", Number(found[2]) - 1);
  const fix = /Did you mean '([^']+)'\?/.exec(detail)?.[1] ?? null;
  return { ...wordAt(text, at), message: detail.slice(0, found.index), fix };
}

function count(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}

/// The problems of `HogQLMetadata`; null where the answer is none.
export function problemsOf(text: string, answer: unknown): SqlProblem[] | null {
  if (typeof answer !== "object" || answer === null) return null;
  const { errors } = answer as { errors?: unknown };
  if (!Array.isArray(errors)) return null;
  return errors.flatMap((error: unknown) => {
    if (typeof error !== "object" || error === null) return [];
    const { start, end, message, fix } = error as Record<string, unknown>;
    if (typeof message !== "string") return [];
    const from = count(start);
    const to = count(end);
    const place =
      from === null
        ? { from: 0, to: text.length }
        : to === null || to <= from
          ? wordAt(text, offsetOf(text, from))
          : { from: offsetOf(text, from), to: offsetOf(text, to) };
    return [{ ...place, message, fix: typeof fix === "string" ? fix : null }];
  });
}
