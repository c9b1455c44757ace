import { useCallback, useEffect, useRef, useState } from "react";
import type { Event } from "./eventList";
import { followTail } from "./tail";
import { addToTail, EMPTY_TAIL, Rate, type Tail } from "./tailBuffer";
import type { TailFilter } from "./tailStream";

/// Rows are shown four times a second, however many arrive.
const SHOW_MS = 250;
const ARRIVED_MAX = 2_000;

export type TailState = "connecting" | "open" | "closed" | "taken";

export interface TailOptions extends TailFilter {
  paused: boolean;
}

/// Follows events as they arrive. While it is paused the rows stay and no stream is open.
export function useTail({ projectId, event, distinct_id, paused }: TailOptions) {
  const [tail, setTail] = useState<Tail>(EMPTY_TAIL);
  const [state, setState] = useState<TailState>("connecting");
  const [perSecond, setPerSecond] = useState(0);
  const [turn, setTurn] = useState(0);
  const filter = useRef("");

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new turn opens the stream again.
  useEffect(() => {
    const key = JSON.stringify([projectId, event, distinct_id]);
    if (filter.current !== key) setTail(EMPTY_TAIL);
    filter.current = key;
    setPerSecond(0);
    if (paused) return;
    setState("connecting");
    const rate = new Rate(Date.now());
    let arrived: Event[] = [];
    let missed = 0;
    const show = () => {
      const now = Date.now();
      setPerSecond(rate.perSecond(now));
      if (arrived.length === 0 && missed === 0) return;
      const [events, lost] = [arrived, missed];
      [arrived, missed] = [[], 0];
      setTail((before) => addToTail(before, events, lost));
    };
    const timer = setInterval(show, SHOW_MS);
    const stop = followTail({ projectId, event, distinct_id }, (message) => {
      if (message.kind === "event") {
        rate.add(1, Date.now());
        if (arrived.length < ARRIVED_MAX) arrived.push(message.event);
        else missed += 1;
      } else if (message.kind === "missed") {
        rate.add(message.count, Date.now());
        missed += message.count;
      } else {
        setState(message.kind);
      }
    });
    return () => {
      clearInterval(timer);
      stop();
      show();
    };
  }, [projectId, event, distinct_id, paused, turn]);

  return {
    tail,
    state,
    perSecond,
    clear: useCallback(() => setTail(EMPTY_TAIL), []),
    takeOver: useCallback(() => setTurn((before) => before + 1), []),
  };
}
