import { createRoute, redirect } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { rootRoute } from "@/shell/rootRoute";

/// A path of this site: another host must not be reachable through the log-in.
const LocalPath = v.pipe(v.string(), v.regex(/^\/(?![/\\])/));
const LogInSearch = v.object({ next: v.fallback(v.optional(LocalPath), undefined) });

const logInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: LogInSearch,
  beforeLoad: async ({ search, location }) => {
    const me = await queryClient.ensureQueryData(meQuery);
    if (!me?.team) return;
    const [, ...fragment] = location.href.split("#");
    throw redirect({ href: [search.next ?? "/", ...fragment].join("#") });
  },
  component: lazyRouteComponent(() => import("./LogInPage"), "LogInPage"),
});

const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: lazyRouteComponent(() => import("./SetupPage"), "SetupPage"),
});

const setPasswordRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup/password",
  component: lazyRouteComponent(() => import("./SetupPage"), "SetPasswordPage"),
});

export const sessionRoutes = [logInRoute, setupRoute, setPasswordRoute];
