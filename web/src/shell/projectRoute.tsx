import { createRoute, notFound, redirect, rootRouteId } from "@tanstack/react-router";
import { isHidden } from "@/api/errors";
import { meQuery, projectQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { rememberProject } from "./lastProject";
import { rootRoute } from "./rootRoute";
import { RootError, RouteNotFound } from "./routeStates";
import { Shell } from "./Shell";

/// The parent of all screens of a project. `useProject()` gives the project to them.
export const projectRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/project/$projectId",
  beforeLoad: async ({ location }) => {
    const me = await queryClient.ensureQueryData(meQuery);
    if (me) return;
    // A draft stays in the fragment, which reaches no log and has no bound.
    const [path = "", ...fragment] = location.href.split("#");
    const next = encodeURIComponent(path);
    throw redirect({ href: [`/login?next=${next}`, ...fragment].join("#") });
  },
  loader: async ({ params }) => {
    const project = await queryClient
      .ensureQueryData(projectQuery(params.projectId))
      .catch((error) => {
        // Above the shell, which needs a project.
        throw isHidden(error) ? notFound({ routeId: rootRouteId }) : error;
      });
    rememberProject(params.projectId);
    return { project };
  },
  component: Shell,
  errorComponent: RootError,
  notFoundComponent: RouteNotFound,
});
