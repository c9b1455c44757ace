import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { ListSearch } from "@/shell/listSearch";
import { projectRoute } from "@/shell/projectRoute";
import { DashboardSearch } from "./filters";

const dashboardsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "dashboard",
  validateSearch: v.object({
    ...ListSearch.entries,
    tag: v.fallback(v.optional(v.string()), undefined),
    /// Opens the dialog that makes one.
    new: v.fallback(v.optional(v.literal(true)), undefined),
  }),
  component: lazyRouteComponent(() => import("./DashboardsPage"), "DashboardsPage"),
});

const dashboardRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "dashboard/$id",
  validateSearch: DashboardSearch,
  component: lazyRouteComponent(() => import("./DashboardPage"), "DashboardPage"),
});

export const dashboardsRoutes = [dashboardsRoute, dashboardRoute];
