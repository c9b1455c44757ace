import { createRoute, createRouter, redirect } from "@tanstack/react-router";
import { activityLogRoutes } from "@/activity_log/routes";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { cohortsRoutes } from "@/cohorts/routes";
import { dashboardsRoutes } from "@/dashboards/routes";
import { dataManagementRoutes } from "@/data_management/routes";
import { eventsRoutes } from "@/events/routes";
import { flagsRoutes } from "@/feature_flags/routes";
import { groupsRoutes } from "@/groups/routes";
import { homeRoutes } from "@/home/routes";
import { insightsRoutes } from "@/insights/routes";
import { instanceRoutes } from "@/instance/routes";
import { onboardingRoutes } from "@/onboarding/routes";
import { personsRoutes } from "@/persons/routes";
import { sessionRoutes } from "@/session/routes";
import { settingsRoutes } from "@/settings/routes";
import { lastProject } from "@/shell/lastProject";
import { projectRoute } from "@/shell/projectRoute";
import { rootRoute } from "@/shell/rootRoute";
import { RouteError, RouteNotFound, RoutePending } from "@/shell/routeStates";
import { sqlRoutes } from "@/sql/routes";

const indexRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: async () => {
    const me = await queryClient.ensureQueryData(meQuery);
    if (!me) throw redirect({ to: "/login" });
    const projectId = lastProject(me);
    if (!projectId) throw redirect({ to: "/login" });
    throw redirect({ to: "/project/$projectId/home", params: { projectId }, replace: true });
  },
});

const projectIndexRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/project/$projectId/home", params, replace: true });
  },
});

const routeTree = rootRoute.addChildren([
  indexRoute,
  ...sessionRoutes,
  projectRoute.addChildren([
    projectIndexRoute,
    ...homeRoutes,
    ...onboardingRoutes,
    ...insightsRoutes,
    ...dashboardsRoutes,
    ...eventsRoutes,
    ...dataManagementRoutes,
    ...activityLogRoutes,
    ...settingsRoutes,
    ...instanceRoutes,
    ...personsRoutes,
    ...groupsRoutes,
    ...cohortsRoutes,
    ...sqlRoutes,
    ...flagsRoutes,
  ]),
]);

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultPendingMs: 150,
  defaultPendingMinMs: 0,
  defaultPendingComponent: RoutePending,
  defaultErrorComponent: RouteError,
  defaultNotFoundComponent: RouteNotFound,
  scrollRestoration: true,
  trailingSlash: "never",
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
