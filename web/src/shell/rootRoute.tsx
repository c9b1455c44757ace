import { createRootRoute, Outlet } from "@tanstack/react-router";
import { Suspense } from "react";
import { OfflineBanner } from "./OfflineBanner";
import { RootNotFound } from "./routeStates";

export const rootRoute = createRootRoute({
  notFoundComponent: RootNotFound,
  component: () => (
    <Suspense>
      <OfflineBanner />
      <Outlet />
    </Suspense>
  ),
});
