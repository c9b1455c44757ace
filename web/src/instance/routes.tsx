import { createRoute } from "@tanstack/react-router";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";

const statusRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "instance/status",
  component: lazyRouteComponent(() => import("./InstanceStatusPage"), "InstanceStatusPage"),
});

export const instanceRoutes = [statusRoute];
