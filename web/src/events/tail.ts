import { openTail, type TailFilter, type TailMessage, tailPath } from "./tailStream";

const PING_MS = 20_000;

/// Follows events as they arrive while the page is visible, until the returned function is called.
/// A browser has one such stream: without SharedWorker each visible tab has its own.
export function followTail(
  filter: TailFilter,
  onMessage: (message: TailMessage) => void,
): () => void {
  const path = tailPath(filter);
  const follow =
    typeof SharedWorker === "undefined" ? openTail : (viaWorker(onMessage) ?? openTail);
  let stop: (() => void) | null = null;
  const update = () => {
    if (document.hidden) {
      stop?.();
      stop = null;
    } else {
      stop ??= follow(path, onMessage);
    }
  };
  update();
  document.addEventListener("visibilitychange", update);
  return () => {
    document.removeEventListener("visibilitychange", update);
    stop?.();
  };
}

function viaWorker(onMessage: (message: TailMessage) => void): typeof openTail | null {
  let port: MessagePort;
  try {
    const worker = new SharedWorker(new URL("./tail.worker.ts", import.meta.url), {
      type: "module",
      name: "hedgerow-tail",
    });
    port = worker.port;
  } catch {
    return null;
  }
  return (path) => {
    port.onmessage = ({ data }: MessageEvent<TailMessage>) => onMessage(data);
    port.postMessage({ path, start: true });
    const ping = setInterval(() => port.postMessage({ path, start: false }), PING_MS);
    const leave = () => port.postMessage({ path: null, start: false });
    window.addEventListener("pagehide", leave);
    return () => {
      clearInterval(ping);
      window.removeEventListener("pagehide", leave);
      port.onmessage = null;
      leave();
    };
  };
}
