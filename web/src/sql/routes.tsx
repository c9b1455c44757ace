import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { Text } from "@/persons/search";
import { projectRoute } from "@/shell/projectRoute";

const sqlRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "sql",
  validateSearch: v.object({
    /// The insight whose query is edited, by its short id.
    insight: Text,
    /// The statement of PostHog's links.
    open_query: Text,
  }),
  component: lazyRouteComponent(() => import("./SqlPage"), "SqlPage"),
});

export const sqlRoutes = [sqlRoute];
