import { createRoute } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { ListSearch } from "@/shell/listSearch";
import { projectRoute } from "@/shell/projectRoute";

const text = v.fallback(v.optional(v.string()), undefined);

const InsightsSearch = v.object({
  ...ListSearch.entries,
  type: text,
  tag: text,
  created_by: v.fallback(v.optional(v.number()), undefined),
  favorited: v.fallback(v.optional(v.boolean()), undefined),
});

/// The point that is explained: the position of its series, a dot, and its day.
const BuilderSearch = v.object({ open: text });

/// `dashboard` is where the new insight shall stand.
const NewInsightSearch = v.object({
  ...BuilderSearch.entries,
  dashboard: v.fallback(v.optional(v.number()), undefined),
});

const insightsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "insights",
  validateSearch: InsightsSearch,
  component: lazyRouteComponent(() => import("./InsightsPage"), "InsightsPage"),
});

const newInsightRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "insights/new",
  validateSearch: NewInsightSearch,
  component: lazyRouteComponent(() => import("./InsightPage"), "NewInsightPage"),
});

const insightRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: "insights/$shortId",
  validateSearch: BuilderSearch,
  component: lazyRouteComponent(() => import("./InsightPage"), "InsightPage"),
});

export const insightsRoutes = [insightsRoute, newInsightRoute, insightRoute];
