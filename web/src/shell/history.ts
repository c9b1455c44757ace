/// Undo and redo of a draft.

export interface History<T> {
  past: readonly T[];
  present: T;
  future: readonly T[];
  /// What the last change was about: more of the same becomes one step.
  topic: string | null;
}

const STEPS_MAX = 100;

export function startHistory<T>(present: T): History<T> {
  return { past: [], present, future: [], topic: null };
}

export function change<T>(history: History<T>, next: T, topic: string | null = null): History<T> {
  const merges = topic !== null && topic === history.topic && history.past.length > 0;
  const past = merges ? history.past : [...history.past, history.present].slice(-STEPS_MAX);
  return { past, present: next, future: [], topic };
}

export function undo<T>(history: History<T>): History<T> {
  const previous = history.past.at(-1);
  if (previous === undefined) return history;
  return {
    past: history.past.slice(0, -1),
    present: previous,
    future: [history.present, ...history.future],
    topic: null,
  };
}

export function redo<T>(history: History<T>): History<T> {
  const [next, ...future] = history.future;
  if (next === undefined) return history;
  return { past: [...history.past, history.present], present: next, future, topic: null };
}
