/// Holds one pulse stream a project for all tabs of a browser: HTTP/1.1 allows six connections a
/// host, and a stream in each tab would block the seventh.
import { openPulse } from "./pulseStream";

/// A browser looks at few projects at once; the one least recently asked for makes room.
const STREAMS_MAX = 4;
/// Tabs are heard of every 20 s, once a minute while throttled in the background.
const PORT_SILENT_MS_MAX = 150_000;

interface Subscriber {
  project: string | null;
  heardAt: number;
}

const subscribers = new Map<MessagePort, Subscriber>();
const streams = new Map<string, () => void>();

function update(): void {
  const now = Date.now();
  for (const [port, subscriber] of subscribers) {
    if (now - subscriber.heardAt > PORT_SILENT_MS_MAX) subscribers.delete(port);
  }
  const wanted = new Set<string>();
  for (const { project } of subscribers.values()) if (project) wanted.add(project);
  for (const [project, close] of streams) {
    if (wanted.has(project)) continue;
    close();
    streams.delete(project);
  }
  for (const project of wanted) {
    if (streams.has(project)) continue;
    const oldest = streams.keys().next().value;
    if (streams.size >= STREAMS_MAX && oldest !== undefined) {
      streams.get(oldest)?.();
      streams.delete(oldest);
    }
    streams.set(
      project,
      openPulse(project, (pulse) => {
        for (const [port, subscriber] of subscribers) {
          if (subscriber.project === project) port.postMessage({ project, pulse });
        }
      }),
    );
  }
}

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  subscribers.set(port, { project: null, heardAt: Date.now() });
  port.onmessage = (message: MessageEvent<{ project: string | null }>) => {
    subscribers.set(port, { project: message.data.project, heardAt: Date.now() });
    update();
  };
  port.start();
});

setInterval(update, 30_000);
