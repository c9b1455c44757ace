import { type ReactNode, useEffect } from "react";
import icon from "@/ui/icon.svg";

/// The frame of pages that need no session.
export function SessionFrame({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Hedgerow`;
  }, [title]);
  return (
    <main className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="w-full max-w-sm">
        <div className="mb-5 flex items-center justify-center gap-2.5">
          <img src={icon} alt="" className="size-8" />
          <span className="text-lg font-semibold tracking-tight">Hedgerow</span>
        </div>
        <section className="rounded-lg border bg-surface p-6 shadow-card">
          <h1 className="mb-4 text-xl font-semibold tracking-tight">{title}</h1>
          {children}
        </section>
      </div>
    </main>
  );
}
