import { useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { change, type History, redo, startHistory, undo } from "./history";

/// How a draft is written to the fragment.
export interface DraftCodec<T> {
  encode: (draft: T) => string;
  /// Null where the fragment holds none.
  decode: (fragment: string) => T | null;
  same: (a: T, b: T) => boolean;
}

export interface FragmentDraft<T> {
  value: T;
  /// Whether it differs from what is saved.
  isChanged: boolean;
  /// Edits of one topic in a row are undone together, such as typing.
  edit: (next: T, topic?: string) => void;
  undo: () => void;
  redo: () => void;
  canUndo: boolean;
  canRedo: boolean;
  /// Back to what is saved; this too can be undone.
  discard: () => void;
}

const WRITE_MS = 150;

function isTextField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.closest("input:not([type=checkbox]), textarea") !== null)
  );
}

/// A draft that lives in the URL, which beats what is saved: edits replace the entry of the browser's
/// history, so that Back leaves.
export function useFragmentDraft<T>(saved: T, codec: DraftCodec<T>): FragmentDraft<T> {
  const router = useRouter();
  const navigate = useNavigate();
  const fragment = useLocation({ select: () => router.history.location.hash });
  const latest = useRef(codec);
  latest.current = codec;
  const [history, setHistory] = useState<History<T>>(() =>
    startHistory(codec.decode(fragment) ?? saved),
  );
  const value = history.present;
  const isChanged = !codec.same(value, saved);

  const wanted = isChanged ? codec.encode(value) : "";
  const written = useRef(fragment.replace(/^#/, ""));
  useEffect(() => {
    if (wanted === written.current) return;
    const before = written.current;
    const timer = setTimeout(() => {
      // A fragment that is not rendered yet is newer than this edit. Its render comes here again.
      const isNewer = [window.location.hash, router.history.location.hash].some(
        (hash) => hash !== fragment,
      );
      // So is one that was rendered and decoded, but whose draft is not.
      if (isNewer || written.current !== before) return;
      written.current = wanted;
      void navigate({
        to: ".",
        search: true,
        hash: wanted,
        replace: true,
        resetScroll: false,
        hashScrollIntoView: false,
      });
    }, WRITE_MS);
    return () => clearTimeout(timer);
  }, [wanted, navigate, router, fragment]);

  // Somebody else changed the fragment: a pasted link, or the browser's history.
  useEffect(() => {
    const now = fragment.replace(/^#/, "");
    if (now === written.current) return;
    written.current = now;
    const { decode, same } = latest.current;
    const next = decode(now) ?? saved;
    setHistory((before) => (same(before.present, next) ? before : change(before, next)));
  }, [fragment, saved]);

  const onUndo = useCallback(() => setHistory(undo), []);
  const onRedo = useCallback(() => setHistory(redo), []);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || isTextField(event.target)) return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      event.preventDefault();
      if (key === "y" || event.shiftKey) onRedo();
      else onUndo();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [onUndo, onRedo]);

  return {
    value,
    isChanged,
    edit: useCallback(
      (next, topic) => setHistory((before) => change(before, next, topic ?? null)),
      [],
    ),
    undo: onUndo,
    redo: onRedo,
    canUndo: history.past.length > 0,
    canRedo: history.future.length > 0,
    discard: useCallback(() => setHistory((before) => change(before, saved)), [saved]),
  };
}
