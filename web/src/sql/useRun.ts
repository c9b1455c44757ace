import { useEffect, useRef, useState } from "react";
import { isAbort } from "@/api/errors";
import { type Answer, ask, type SqlQuery } from "@/insights/queries";

export interface Finished {
  query: SqlQuery;
  answer: Answer;
  ms: number;
}

export type RunState =
  | { kind: "idle" }
  | { kind: "running"; since: number; before: Finished | null }
  | { kind: "done"; finished: Finished }
  | { kind: "failed"; query: SqlQuery; error: unknown };

/// Runs statements, one at a time: a new one cancels that before, also on the server.
export function useRun(projectId: string, onEnd: (state: RunState) => void) {
  const [state, setState] = useState<RunState>({ kind: "idle" });
  const running = useRef<AbortController>(null);
  const latest = useRef(onEnd);
  latest.current = onEnd;
  useEffect(() => () => running.current?.abort(), []);
  const end = (next: RunState) => {
    setState(next);
    latest.current(next);
  };
  const run = async (query: SqlQuery) => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const since = performance.now();
    setState((before) => ({
      kind: "running",
      since,
      before:
        before.kind === "done" ? before.finished : before.kind === "running" ? before.before : null,
    }));
    try {
      const answer = await ask(projectId, query, {
        signal: controller.signal,
        refresh: "force_blocking",
      });
      if (running.current !== controller) return;
      end({ kind: "done", finished: { query, answer, ms: performance.now() - since } });
    } catch (error) {
      if (running.current !== controller || isAbort(error)) return;
      end({ kind: "failed", query, error });
    }
  };
  const cancel = () => {
    running.current?.abort();
    running.current = null;
    setState((before) =>
      before.kind === "running" && before.before
        ? { kind: "done", finished: before.before }
        : { kind: "idle" },
    );
  };
  return { state, run, cancel };
}
