/// Holds the one stream of events of a browser, beside the pulse. Tabs that follow the same events
/// share it; a tab that asks for others takes it over, and the rest are told.
import { openTail, type TailMessage } from "./tailStream";

/// Tabs are heard of every 20 s, once a minute while throttled in the background.
const PORT_SILENT_MS_MAX = 150_000;

const ports = new Map<MessagePort, { path: string; heardAt: number }>();
let stream: { path: string; close: () => void } | null = null;

function publish(path: string, message: TailMessage): void {
  for (const [port, subscriber] of ports) {
    if (subscriber.path === path) port.postMessage(message);
  }
}

function follow(path: string): void {
  if (stream?.path === path) return;
  if (stream) {
    stream.close();
    publish(stream.path, { kind: "taken" });
    for (const [port, subscriber] of ports) {
      if (subscriber.path === stream.path) ports.delete(port);
    }
  }
  stream = { path, close: openTail(path, (message) => publish(path, message)) };
}

function closeUnused(): void {
  const now = Date.now();
  for (const [port, subscriber] of ports) {
    if (now - subscriber.heardAt > PORT_SILENT_MS_MAX) ports.delete(port);
  }
  if (stream && ![...ports.values()].some(({ path }) => path === stream?.path)) {
    stream.close();
    stream = null;
  }
}

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  port.onmessage = ({ data }: MessageEvent<{ path: string | null; start: boolean }>) => {
    if (data.path === null) ports.delete(port);
    else if (data.start || ports.get(port)?.path === data.path) {
      ports.set(port, { path: data.path, heardAt: Date.now() });
      follow(data.path);
      // A tab that joins a running stream hears no `open` of its own.
      if (data.start) port.postMessage({ kind: "open" } satisfies TailMessage);
    }
    closeUnused();
  };
  port.start();
});

setInterval(closeUnused, 30_000);
