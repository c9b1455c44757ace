import { createRoute, redirect } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { Text } from "@/persons/search";
import { projectRoute } from "@/shell/projectRoute";

const TABS = ["related", "timeline"] as const;
export type GroupTab = (typeof TABS)[number] | "properties";

const indexRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "groups",
  beforeLoad: ({ params }) => {
    throw redirect({
      to: "/project/$projectId/groups/$index",
      params: { ...params, index: "0" },
      replace: true,
    });
  },
});

const groupsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "groups/$index",
  validateSearch: v.object({ search: Text }),
  component: lazyRouteComponent(() => import("./GroupsPage"), "GroupsPage"),
});

const groupRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "groups/$index/$key",
  validateSearch: v.object({ tab: v.fallback(v.optional(v.picklist(TABS)), undefined) }),
  component: lazyRouteComponent(() => import("./GroupPage"), "GroupPage"),
});

/// PostHog's link to a group names its tab in the path.
const groupTabRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "groups/$index/$key/$tab",
  beforeLoad: ({ params: { projectId, index, key } }) => {
    throw redirect({
      to: "/project/$projectId/groups/$index/$key",
      params: { projectId, index, key },
      replace: true,
    });
  },
});

export const groupsRoutes = [indexRoute, groupsRoute, groupRoute, groupTabRoute];
