import { useEffect, useState } from "react";
import { connection, tryNow } from "@/api/connection";
import { useStore } from "@/api/store";

/// Says that the server does not answer, and when it is tried again.
export function OfflineBanner() {
  const state = useStore(connection);
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (state.online) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state]);
  if (state.online) return null;
  const seconds = Math.max(0, Math.ceil((state.nextTryAt - now) / 1_000));
  return (
    <div
      role="status"
      className="fixed bottom-17 left-1/2 z-60 flex w-max max-w-[calc(100vw-1.5rem)] -translate-x-1/2 flex-wrap items-center justify-center gap-x-3 rounded-lg border border-warn/40 bg-warn-soft px-4 py-2 text-warn shadow-popup md:bottom-4"
    >
      <span>
        <strong className="font-semibold">The server does not answer.</strong> Your edits stay in
        this tab.
      </span>
      <span aria-hidden="true" className="tabular-nums">
        {seconds > 0 ? `Next try in ${seconds} s` : "Trying…"}
      </span>
      <button type="button" onClick={tryNow} className="min-h-6 font-semibold underline">
        Try now
      </button>
    </div>
  );
}
