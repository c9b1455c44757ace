import { lazy, Suspense } from "react";
import { errorMessage } from "@/api/errors";
import { patient } from "@/api/lazy";
import { createStore, useStore } from "@/api/store";
import type { ShownToast } from "./ToastViewport";

/// A toast may say that the server is away.
const load = () => patient(() => import("./ToastViewport"));
const Viewport = lazy(() => load().then((module) => ({ default: module.ToastViewport })));
/// The viewport is loaded with the first toast.
const wanted = createStore(false);

export interface ToastOptions {
  description?: string;
  /// Takes back what was done; the toast then stays for ten seconds.
  undo?: () => void;
  action?: { label: string; onClick: () => void };
}

function add(type: ShownToast["type"], title: string, options: ToastOptions = {}): void {
  const { description, undo, action } = options;
  const button = undo ? { label: "Undo", onClick: undo } : action;
  wanted.set(true);
  void load().then(({ show }) => show({ type, title, description, button }));
}

/// Says what happened, from anywhere.
export const toast = {
  success: (title: string, options?: ToastOptions) => add("success", title, options),
  info: (title: string, options?: ToastOptions) => add("info", title, options),
  error: (error: unknown, title = "That did not work") =>
    add("error", title, { description: errorMessage(error) }),
};

export function Toaster() {
  return useStore(wanted) ? (
    <Suspense>
      <Viewport />
    </Suspense>
  ) : null;
}
