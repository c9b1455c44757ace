import { lazyRouteComponent as lazyRoute } from "@tanstack/react-router";
import { type ComponentType, type LazyExoticComponent, lazy as reactLazy } from "react";
import { reportOffline, waitUntilOnline } from "./connection";

// biome-ignore lint/suspicious/noExplicitAny: React's own bound for components of any props.
type AnyComponent = ComponentType<any>;

/// Loads a part of the program. Without a server it waits for one, so that what was opened while the
/// server was away opens when it is back.
export async function patient<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const isServed = await fetch("/_livez", { cache: "no-store" }).then(
      () => true,
      () => false,
    );
    // The part itself is missing or broken.
    if (isServed) throw error;
    reportOffline();
    await waitUntilOnline();
    return load();
  }
}

/// As React's, for a server that may be away.
export function lazy<T extends AnyComponent>(
  load: () => Promise<{ default: T }>,
): LazyExoticComponent<T> {
  return reactLazy(() => patient(load));
}

/// As the router's, for a server that may be away. A missing part, of an older build, reloads the page once.
export const lazyRouteComponent: typeof lazyRoute = (load, name) =>
  lazyRoute(() => patient(load), name);
