import { createRoute, redirect } from "@tanstack/react-router";
import * as v from "valibot";
import { lazyRouteComponent } from "@/api/lazy";
import { projectRoute } from "@/shell/projectRoute";

const project = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/project",
  component: lazyRouteComponent(() => import("./ProjectSettingsPage"), "ProjectSettingsPage"),
});

const keys = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/keys",
  component: lazyRouteComponent(() => import("./KeysPage"), "KeysPage"),
});

const members = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/members",
  component: lazyRouteComponent(() => import("./MembersPage"), "MembersPage"),
});

const roles = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/roles",
  component: lazyRouteComponent(() => import("./RolesPage"), "RolesPage"),
});

const text = v.fallback(
  v.optional(v.pipe(v.union([v.string(), v.number()]), v.transform(String), v.nonEmpty())),
  undefined,
);

const access = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/access",
  /// The object whose rules are shown.
  validateSearch: v.object({
    kind: v.fallback(
      v.optional(v.picklist(["action", "dashboard", "feature_flag", "insight"])),
      undefined,
    ),
    id: text,
  }),
  component: lazyRouteComponent(() => import("./AccessPage"), "AccessPage"),
});

const organization = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/organization",
  component: lazyRouteComponent(() => import("./OrganizationPage"), "OrganizationPage"),
});

const account = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings/account",
  component: lazyRouteComponent(() => import("./AccountPage"), "AccountPage"),
});

const index = createRoute({
  getParentRoute: () => projectRoute,
  path: "settings",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/project/$projectId/settings/project", params, replace: true });
  },
});

export const settingsRoutes = [project, keys, members, roles, access, organization, account, index];
