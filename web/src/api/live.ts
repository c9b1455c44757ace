import { useEffect, useRef } from "react";
import { openPulse, type Pulse } from "./pulseStream";

export type { Pulse };

const PING_MS = 20_000;
const IDLE_MS_MAX = 5 * 60_000;
const REFETCH_MS_MIN = 1_000;
/// A chart that takes long to compute is asked for less often: at most 5 % of the time.
const REFETCH_DUTY = 20;

type Listener = (pulse: Pulse) => void;

let project: string | null = null;
const listeners = new Set<Listener>();
let port: MessagePort | null = null;
let closeOwn: (() => void) | null = null;
let openProject: string | null = null;
let lastActive = Date.now();
let started = false;

function publish(pulse: Pulse): void {
  for (const listener of [...listeners]) listener(pulse);
}

/// Asks for the stream while somebody looks: the page is visible, used in the last five minutes, and
/// something on it listens.
function update(): void {
  const idle = Date.now() - lastActive > IDLE_MS_MAX;
  const wanted = listeners.size > 0 && !document.hidden && !idle ? project : null;
  if (port) {
    port.postMessage({ project: wanted });
    return;
  }
  if (wanted === openProject) return;
  closeOwn?.();
  openProject = wanted;
  closeOwn = wanted ? openPulse(wanted, publish) : null;
}

function start(): void {
  if (started) return;
  started = true;
  if (typeof SharedWorker !== "undefined") {
    try {
      const worker = new SharedWorker(new URL("./pulse.worker.ts", import.meta.url), {
        type: "module",
        name: "hedgerow-pulse",
      });
      port = worker.port;
      port.onmessage = (message: MessageEvent<{ project: string; pulse: Pulse }>) => {
        if (message.data.project === project) publish(message.data.pulse);
      };
      worker.onerror = () => {
        port = null;
        update();
      };
    } catch {
      port = null;
    }
  }
  document.addEventListener("visibilitychange", update);
  window.addEventListener("pagehide", () => port?.postMessage({ project: null }));
  for (const kind of ["pointermove", "keydown", "focus"]) {
    window.addEventListener(
      kind,
      () => {
        const wasIdle = Date.now() - lastActive > IDLE_MS_MAX;
        lastActive = Date.now();
        if (wasIdle) update();
      },
      { passive: true },
    );
  }
  setInterval(update, PING_MS);
}

/// Calls the listener for each line of a project's pulse, until the returned function is called.
export function subscribePulse(projectId: string, listener: Listener): () => void {
  start();
  project = projectId;
  listeners.add(listener);
  update();
  return () => {
    listeners.delete(listener);
    update();
  };
}

export interface LiveOptions {
  projectId: string;
  /// The events that the number depends on; null for all.
  events: readonly string[] | null;
  /// False for a range that ended, a hidden tile, an unsaved draft that is being edited.
  enabled: boolean;
  refetch: () => Promise<unknown>;
}

/// Asks again when the pulse names the events of a chart.
export function useLiveRefetch({ projectId, events, enabled, refetch }: LiveOptions): void {
  const latest = useRef(refetch);
  latest.current = refetch;
  const key = events ? JSON.stringify(events) : null;
  useEffect(() => {
    if (!enabled) return;
    const names = key === null ? null : new Set<string>(JSON.parse(key) as string[]);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running = false;
    let dirty = false;
    let notBefore = 0;
    const run = async () => {
      timer = undefined;
      running = true;
      dirty = false;
      const began = performance.now();
      try {
        await latest.current();
      } finally {
        const took = performance.now() - began;
        notBefore = performance.now() + Math.max(REFETCH_MS_MIN, took * REFETCH_DUTY) - took;
        running = false;
        if (dirty) plan();
      }
    };
    const plan = () => {
      dirty = true;
      if (running || timer !== undefined) return;
      timer = setTimeout(run, Math.max(0, notBefore - performance.now()));
    };
    const stop = subscribePulse(projectId, (pulse) => {
      const named = Object.keys(pulse.events);
      if (
        pulse.more ||
        (names === null ? named.length > 0 : named.some((name) => names.has(name)))
      ) {
        plan();
      }
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [projectId, key, enabled]);
}
