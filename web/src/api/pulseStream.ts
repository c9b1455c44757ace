import type { Schemas } from "./client";

/// One line of `GET /api/projects/{id}/pulse`: what changed since the line before.
export type Pulse = Schemas["Pulse"];

const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 30_000;

/// A stream that opens later than this after the answers it follows has missed something.
const OPEN_MS_MAX = 1_000;
const ANYTHING: Pulse = { position: 0, events: {}, more: true, flags_changed: true };

/// Follows a project's pulse until it is closed, with backoff when the stream breaks.
export function openPulse(projectId: string, onPulse: (pulse: Pulse) => void): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0;
  let closed = false;
  const began = performance.now();

  const connect = () => {
    source = new EventSource(`/api/projects/${encodeURIComponent(projectId)}/pulse`);
    source.onopen = () => {
      // What came in while there was no stream is not known: anything may have.
      if (attempt > 0 || performance.now() - began > OPEN_MS_MAX) onPulse(ANYTHING);
      attempt = 0;
    };
    source.onmessage = (message: MessageEvent<string>) => {
      const pulse = parsePulse(message.data);
      if (pulse) onPulse(pulse);
    };
    source.onerror = () => {
      source?.close();
      if (closed) return;
      const full = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** attempt);
      attempt += 1;
      timer = setTimeout(connect, full * (0.5 + Math.random() / 2));
    };
  };
  connect();
  return () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
  };
}

export function parsePulse(line: string): Pulse | null {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== "object" || value === null) return null;
    const { position, events, more, flags_changed } = value as Partial<Pulse>;
    if (typeof position !== "number") return null;
    return {
      position,
      events: events ?? {},
      more: more === true,
      flags_changed: flags_changed === true,
    };
  } catch {
    return null;
  }
}
