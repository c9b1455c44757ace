import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { ListSearch } from "@/shell/listSearch";
import { projectRoute } from "@/shell/projectRoute";

const text = v.fallback(v.optional(v.string()), undefined);

const FlagsSearch = v.object({
  ...ListSearch.entries,
  status: v.fallback(v.optional(v.picklist(["on", "off", "stale", "archived"])), undefined),
  type: v.fallback(v.optional(v.picklist(["boolean", "multivariant", "remote_config"])), undefined),
  runtime: v.fallback(v.optional(v.picklist(["all", "client", "server"])), undefined),
  tag: text,
});

/// The tabs of a flag; without one its settings.
export const FLAG_TABS = ["why", "usage", "history", "access", "code"] as const;

const FlagSearch = v.object({
  tab: v.fallback(v.optional(v.picklist(FLAG_TABS)), undefined),
  /// The entry of the history that is open.
  entry: text,
  /// Whose value is explained: a distinct id, and the groups as JSON.
  who: text,
  groups: v.fallback(v.optional(v.record(v.string(), v.string())), undefined),
});

const flagsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "feature_flags",
  validateSearch: FlagsSearch,
  component: lazyRouteComponent(() => import("./FlagsPage"), "FlagsPage"),
});

const newFlagRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "feature_flags/new",
  validateSearch: FlagSearch,
  component: lazyRouteComponent(() => import("./FlagPage"), "NewFlagPage"),
});

const flagRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "feature_flags/$id",
  validateSearch: FlagSearch,
  component: lazyRouteComponent(() => import("./FlagPage"), "FlagPage"),
});

export const flagsRoutes = [flagsRoute, newFlagRoute, flagRoute];
