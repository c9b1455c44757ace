import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { Text } from "@/persons/search";
import { projectRoute } from "@/shell/projectRoute";

const COHORT_TABS = ["conditions", "used", "activity"] as const;

export type CohortTab = (typeof COHORT_TABS)[number] | "persons";

const cohortsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "cohorts",
  validateSearch: v.object({
    search: Text,
    type: v.fallback(v.optional(v.picklist(["static", "dynamic"])), undefined),
  }),
  component: lazyRouteComponent(() => import("./CohortsPage"), "CohortsPage"),
});

const newCohortRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "cohorts/new",
  validateSearch: v.object({
    static: v.fallback(v.optional(v.boolean()), undefined),
  }),
  component: lazyRouteComponent(() => import("./NewCohortPage"), "NewCohortPage"),
});

const cohortRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "cohorts/$id",
  validateSearch: v.object({ tab: v.fallback(v.optional(v.picklist(COHORT_TABS)), undefined) }),
  component: lazyRouteComponent(() => import("./CohortPage"), "CohortPage"),
});

export const cohortsRoutes = [cohortsRoute, newCohortRoute, cohortRoute];
