import { createRoute, redirect } from "@tanstack/react-router";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";
import { PersonSearch, PersonsSearch } from "./search";

const personsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "persons",
  validateSearch: PersonsSearch,
  component: lazyRouteComponent(() => import("./PersonsPage"), "PersonsPage"),
});

const personRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "persons/$id",
  validateSearch: PersonSearch,
  component: lazyRouteComponent(() => import("./PersonPage"), "PersonPage"),
});

/// PostHog's link to a person by a distinct id.
const personOfIdRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "person/$",
  beforeLoad: ({ params: { projectId, _splat: id = "" } }) => {
    throw redirect({
      to: "/project/$projectId/persons/$id",
      params: { projectId, id },
      replace: true,
    });
  },
});

export const personsRoutes = [personsRoute, personRoute, personOfIdRoute];
