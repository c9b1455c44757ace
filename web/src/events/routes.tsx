import { createRoute, redirect } from "@tanstack/react-router";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";
import { ExploreSearch, LiveSearch } from "./search";

const exploreRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "activity/explore",
  validateSearch: ExploreSearch,
  component: lazyRouteComponent(() => import("./ExplorePage"), "ExplorePage"),
});

const liveRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "activity/live",
  validateSearch: LiveSearch,
  component: lazyRouteComponent(() => import("./LivePage"), "LivePage"),
});

const activityRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "activity",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/project/$projectId/activity/explore", params, replace: true });
  },
});

/// PostHog's link to one event; the timestamp after the id only speeds up its look-up there.
const eventRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "events/$eventId/{-$timestamp}",
  beforeLoad: ({ params: { projectId, eventId } }) => {
    throw redirect({
      to: "/project/$projectId/activity/explore",
      params: { projectId },
      search: { id: eventId },
      replace: true,
    });
  },
});

export const eventsRoutes = [exploreRoute, liveRoute, activityRoute, eventRoute];
