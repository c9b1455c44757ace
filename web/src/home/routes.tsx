import { createRoute } from "@tanstack/react-router";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";

const homeRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "home",
  component: lazyRouteComponent(() => import("./HomePage"), "HomePage"),
});

export const homeRoutes = [homeRoute];
