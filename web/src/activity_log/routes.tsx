import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";

/// Ids of numbers look like numbers in a link.
const text = v.fallback(
  v.optional(v.pipe(v.union([v.string(), v.number()]), v.transform(String), v.nonEmpty())),
  undefined,
);

const LogSearch = v.object({
  scope: text,
  user: text,
  /// The object whose history is shown.
  item: text,
  cursor: text,
  /// The entry whose changes are open.
  entry: text,
});

const activityLogRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "activity-log",
  validateSearch: LogSearch,
  component: lazyRouteComponent(() => import("./ActivityLogPage"), "ActivityLogPage"),
});

export const activityLogRoutes = [activityLogRoute];
