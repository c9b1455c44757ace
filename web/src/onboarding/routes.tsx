import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";
import { SDKS } from "./sdks";

const onboardingRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "onboarding",
  validateSearch: v.object({ sdk: v.fallback(v.optional(v.picklist(SDKS)), undefined) }),
  component: lazyRouteComponent(() => import("./OnboardingPage"), "OnboardingPage"),
});

export const onboardingRoutes = [onboardingRoute];
