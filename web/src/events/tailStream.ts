import { backoffMs } from "@/api/connection";
import type { Event } from "./eventList";

/// Which events to follow; the path of the stream is its name.
export interface TailFilter {
  projectId: string;
  event?: string;
  distinct_id?: string;
}

export type TailMessage =
  | { kind: "open" }
  | { kind: "event"; event: Event }
  | { kind: "missed"; count: number }
  /// The stream broke and is opened again after a while.
  | { kind: "closed" }
  /// Another tab follows other events.
  | { kind: "taken" };

export function tailPath({ projectId, event, distinct_id }: TailFilter): string {
  const search = new URLSearchParams();
  if (event) search.set("event", event);
  if (distinct_id) search.set("distinct_id", distinct_id);
  const query = search.size > 0 ? `?${search}` : "";
  return `/api/projects/${encodeURIComponent(projectId)}/events/live${query}`;
}

/// Follows a stream of events until it is closed, with backoff when it breaks.
export function openTail(path: string, onMessage: (message: TailMessage) => void): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0;
  const parsed = (message: MessageEvent<string>): unknown => {
    try {
      return JSON.parse(message.data);
    } catch {
      return null;
    }
  };
  const connect = () => {
    source = new EventSource(path);
    source.onopen = () => {
      attempt = 0;
      onMessage({ kind: "open" });
    };
    source.addEventListener("event", (message) => {
      const event = parsed(message) as Event | null;
      if (event?.id) onMessage({ kind: "event", event });
    });
    source.addEventListener("missed", (message) => {
      const missed = parsed(message) as { count?: unknown } | null;
      if (typeof missed?.count === "number") onMessage({ kind: "missed", count: missed.count });
    });
    source.onerror = () => {
      source?.close();
      onMessage({ kind: "closed" });
      timer = setTimeout(connect, backoffMs(attempt));
      attempt += 1;
    };
  };
  connect();
  return () => {
    clearTimeout(timer);
    source?.close();
  };
}
