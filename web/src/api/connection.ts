import { createStore } from "./store";

const DELAY_MS_MIN = 1_000;
const DELAY_MS_MAX = 30_000;

export type Connection = { online: true } | { online: false; attempt: number; nextTryAt: number };

/// Whether the server answers. One probe for the whole page tries again; reads wait for it.
export const connection = createStore<Connection>({ online: true });

let restored: Promise<void> | null = null;
let restore: () => void = () => {};
let timer: ReturnType<typeof setTimeout> | undefined;

/// Exponential backoff from 1 to 30 s. The jitter keeps tabs from returning all at once.
export function backoffMs(attempt: number, random = Math.random()): number {
  const full = Math.min(DELAY_MS_MAX, DELAY_MS_MIN * 2 ** attempt);
  return Math.round(full * (0.5 + random / 2));
}

export function reportOffline(): void {
  if (!connection.get().online) return;
  restored = new Promise((resolve) => {
    restore = resolve;
  });
  schedule(0);
}

export function reportOnline(): void {
  if (connection.get().online) return;
  clearTimeout(timer);
  connection.set({ online: true });
  restore();
  restored = null;
}

/// Resolves when the server answers again; rejects when the caller gives up.
export function waitUntilOnline(signal?: AbortSignal | null): Promise<void> {
  const waiting = restored ?? Promise.resolve();
  if (!signal) return waiting;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    waiting.then(resolve, reject);
  });
}

export function tryNow(): void {
  if (connection.get().online) return;
  clearTimeout(timer);
  void probe();
}

function schedule(attempt: number): void {
  const delay = backoffMs(attempt);
  connection.set({ online: false, attempt, nextTryAt: Date.now() + delay });
  timer = setTimeout(probe, delay);
}

async function probe(): Promise<void> {
  const state = connection.get();
  if (state.online) return;
  try {
    const response = await fetch("/_livez", { cache: "no-store" });
    if (response.ok) return reportOnline();
  } catch {
    // Still away: the next attempt comes later.
  }
  schedule(state.attempt + 1);
}
