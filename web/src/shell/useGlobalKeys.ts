import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { createStore, useStore } from "@/api/store";
import { DESTINATIONS } from "./navigation";

const STORED = "hedgerow.single_keys";
const SEQUENCE_MS_MAX = 1_500;

/// Whether single letters are shortcuts. People who dictate switch them off.
const singleKeys = createStore(localStorage.getItem(STORED) !== "off");

export function useSingleKeys(): [boolean, (on: boolean) => void] {
  const on = useStore(singleKeys);
  return [
    on,
    (next) => {
      localStorage.setItem(STORED, next ? "on" : "off");
      singleKeys.set(next);
    },
  ];
}

/// Whether a key belongs to the control it was pressed in.
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  return (
    target.closest(
      "input, textarea, select, [role=combobox], [role=menu], [role=listbox], [role=dialog]",
    ) !== null
  );
}

export interface KeyBinding {
  /// As `event.key`, or with `mod+` in front for Ctrl or Cmd.
  key: string;
  run: (event: KeyboardEvent) => void;
}

/// Shortcuts of a screen. Those without `mod+` rest while one types and where they are switched off.
export function useKeys(bindings: readonly KeyBinding[]): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.altKey) return;
      const mod = event.ctrlKey || event.metaKey;
      const key = `${mod ? "mod+" : ""}${event.key.length === 1 ? event.key.toLowerCase() : event.key}`;
      if (!mod && (isTyping(event) || !singleKeys.get())) return;
      const binding = latest.current.find((candidate) => candidate.key === key);
      if (!binding) return;
      event.preventDefault();
      binding.run(event);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

interface GlobalKeys {
  projectId: string;
  openPalette: () => void;
  openKeys: () => void;
}

export function useGlobalKeys({ projectId, openPalette, openKeys }: GlobalKeys): void {
  const navigate = useNavigate();
  const pressedG = useRef(0);
  useKeys([
    { key: "mod+k", run: openPalette },
    { key: "?", run: openKeys },
    {
      key: "/",
      run: () => document.querySelector<HTMLElement>("main input[type=search]")?.focus(),
    },
    {
      key: "g",
      run: () => {
        pressedG.current = Date.now();
      },
    },
  ]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (Date.now() - pressedG.current > SEQUENCE_MS_MAX || event.key === "g") return;
      pressedG.current = 0;
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      const destination = DESTINATIONS.find(({ letter }) => letter === event.key.toLowerCase());
      if (!destination) return;
      // Before the screen's own single keys, which may use the same letter.
      event.preventDefault();
      event.stopImmediatePropagation();
      void navigate({ to: destination.to, params: { projectId } });
    };
    document.addEventListener("keydown", onKeyDown, { capture: true });
    return () => document.removeEventListener("keydown", onKeyDown, { capture: true });
  }, [navigate, projectId]);
}
