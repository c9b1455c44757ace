/// Holds the routes of the API against the calls of the screens: what the management API can do, the
/// interface can do, save for what is named here with a reason.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const SOURCES = join(import.meta.dirname, "..");
const SCHEMA = readFileSync(join(import.meta.dirname, "schema.d.ts"), "utf8");

/// Routes that other calls make needless: reading one object of a list that has it whole, or a second
/// spelling of a method.
const SAME_AS: Readonly<Record<string, string>> = {
  "GET /api/personal_api_keys/{id}": "the list has it whole",
  "GET /api/projects/{project_id}/insight_variables/{id}": "the list has it whole",
  "GET /api/projects/{project_id}/activity": "activity_log",
  "GET /api/users": "/api/users/{id} of the person, and the members",
  "GET /api/organizations": "the person has their organizations",
  "GET /api/organizations/{organization_id}/members/{id}": "the list has it whole",
  "GET /api/organizations/{organization_id}/projects": "the organization has its projects",
  "GET /api/organizations/{organization_id}/projects/{project_id}":
    "GET /api/projects/{project_id}",
  "PATCH /api/organizations/{organization_id}/projects/{project_id}":
    "PATCH /api/projects/{project_id}",
  "DELETE /api/organizations/{organization_id}/projects/{project_id}":
    "DELETE /api/projects/{project_id}",
  "GET /api/organizations/{organization_id}/roles/{role_id}": "the list has it whole",
  "GET /api/organizations/{organization_id}/roles/{role_id}/role_memberships":
    "roles have their members",
  "GET /api/organizations/{organization_id}/roles/{role_id}/role_memberships/{uuid}":
    "roles have their members",
  "POST /api/projects": "POST /api/organizations/{organization_id}/projects",
  "GET /api/projects/{project_id}/annotations/{id}": "the list has it whole",
  "GET /api/projects/{project_id}/event_definitions/by_name": "the list filters by names",
  "GET /api/projects/{project_id}/actions/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/actions/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/annotations/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/annotations/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/cohorts/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/cohorts/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/dashboards/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/event_definitions/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/event_definitions/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/feature_flags/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/feature_flags/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/insights/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/insights/{id}/activity": "the activity log with an item",
  "GET /api/projects/{project_id}/persons/activity": "the activity log with a scope",
  "GET /api/projects/{project_id}/persons/{id}/activity": "the activity log with an item",
};

/// Deletion of these is a change of `deleted`, which can be undone.
const SOFT_DELETED =
  /^DELETE \/api\/projects\/\{project_id\}\/(actions|annotations|cohorts|dashboards|feature_flags|insights)\/\{id\}$/;

/// Left out on purpose, with the reason.
const LEFT_OUT: Readonly<Record<string, string>> = {
  "GET /api/schema": "the document that the types are made of",
  "GET /api/early_access_features": "always empty, for SDKs",
  "GET /api/product_tours": "always empty, for SDKs",
  "GET /api/surveys": "always empty, for SDKs",
  "GET /api/web_experiments": "always empty, for SDKs",
  "GET /api/projects/{project_id}/advanced_activity_logs":
    "PostHog's other spelling of the activity log",
  "GET /api/projects/{project_id}/advanced_activity_logs/available_filters":
    "PostHog's other spelling of the activity log",
  "GET /api/projects/{project_id}/dashboard_templates": "screens know the templates by name",
  "GET /api/projects/{project_id}/dashboard_templates/{id}": "screens know the templates by name",
  "GET /api/projects/{project_id}/is_generating_demo_data":
    "creating the demo answers when it is full",
  "POST /api/projects/{project_id}/mcp_tools/execute_sql": "for programs; screens ask `query`",
  "POST /api/projects/{project_id}/mcp_tools/read_taxonomy": "for programs",
  "GET /api/projects/{project_id}/events/live": "a stream, read in `tailStream.ts`",
  "GET /api/projects/{project_id}/pulse": "a stream, read in `pulseStream.ts`",
  "GET /api/projects/{project_id}/query/{id}": "screens wait for the result of a query",
  "POST /api/projects/{project_id}/query/{id}": "screens name the kind in the body only",
  "GET /api/projects/{project_id}/feature_flags/local_evaluation": "for SDKs of servers",
  "GET /api/projects/{project_id}/feature_flags/my_flags": "for PostHog's toolbar",
  "GET /api/projects/{project_id}/feature_flags/{id}/remote_config": "for programs with a key",
  "POST /api/projects/{project_id}/feature_flags/bulk_keys": "for programs that have ids only",
  "GET /api/projects/{project_id}/feature_flags/{id}/dependent_flags":
    "the list has every flag's conditions",
  "POST /api/projects/{project_id}/feature_flags/{id}/disable": "a change of `active`, reviewed",
  "POST /api/projects/{project_id}/feature_flags/{id}/enable": "a change of `active`, reviewed",
  "GET /api/projects/{project_id}/feature_flags/{id}/role_access/{access_id}":
    "the list has it whole",
  "GET /api/projects/{project_id}/feature_flags/{id}/status": "the flag says when it was called",
  "POST /api/projects/{project_id}/feature_flags/{id}/test_evaluation": "explain says more",
  "GET /api/projects/{project_id}/groups/property_definitions":
    "property_definitions with a group type",
  "PATCH /api/projects/{project_id}/persons/{id}": "update_property, one at a time",
  "GET /api/projects/{project_id}/insights/my_last_viewed": "home lists what changed last",
  "GET /api/projects/{project_id}/insights/trending": "home lists what changed last",
  "GET /api/projects/{project_id}/dashboards/{id}/run_insights":
    "all tiles in one answer, for programs; screens load them one by one as they are seen",
  "POST /api/projects/{project_id}/dashboards/create_from_template_json":
    "for programs; screens make dashboards from the templates by name",
  "POST /api/projects/{project_id}/dashboards/{id}/reorder_tiles":
    "the grid saves its layouts with the dashboard",
  "POST /api/projects/{project_id}/insights/cancel": "queries are cancelled by their id",
  "GET /api/projects/{project_id}/insights/funnel": "PostHog's old queries; screens ask `query`",
  "POST /api/projects/{project_id}/insights/funnel": "PostHog's old queries; screens ask `query`",
  "GET /api/projects/{project_id}/insights/path": "PostHog's old queries; screens ask `query`",
  "POST /api/projects/{project_id}/insights/path": "PostHog's old queries; screens ask `query`",
  "GET /api/projects/{project_id}/insights/retention": "PostHog's old queries; screens ask `query`",
  "POST /api/projects/{project_id}/insights/retention":
    "PostHog's old queries; screens ask `query`",
  "GET /api/projects/{project_id}/insights/trend": "PostHog's old queries; screens ask `query`",
  "POST /api/projects/{project_id}/insights/trend": "PostHog's old queries; screens ask `query`",
};

interface Route {
  method: string;
  path: string;
}

/// The document's routes. `PUT` beside `PATCH` takes the same body.
function routes(): Route[] {
  const [, rest = ""] = SCHEMA.split("export interface paths {\n");
  const [paths = ""] = rest.split("\n}\n");
  return paths.split(/^ {4}(?=")/m).flatMap((block) => {
    const path = /^"([^"]+)"/.exec(block)?.[1];
    if (!path) return [];
    const methods = [...block.matchAll(/^ {8}(get|put|post|delete|patch): operations/gm)].map(
      ([, method = ""]) => method.toUpperCase(),
    );
    return methods
      .filter((method) => method !== "PUT" || !methods.includes("PATCH"))
      .map((method) => ({ method, path }));
  });
}

/// The calls of the typed clients, as "GET /api/…". A path is a literal there: the types demand it.
function calls(): Set<string> {
  const found = new Set<string>();
  for (const file of readdirSync(SOURCES, { recursive: true, encoding: "utf8" })) {
    if (!/(?<!\.test|\.d)\.tsx?$/.test(file)) continue;
    const text = readFileSync(join(SOURCES, file), "utf8");
    const made = text.matchAll(
      /\b(?:api|publicApi)\s*\.(GET|POST|PUT|PATCH|DELETE)\(\s*"([^"]+)"/g,
    );
    for (const [, method, path] of made) found.add(`${method} ${path}`);
  }
  return found;
}

const name = ({ method, path }: Route) => `${method} ${path}`;

it("the interface calls every route of the management API, save those named with a reason", () => {
  const called = calls();
  const wanted = routes().filter(({ path }) => path.startsWith("/api/"));
  expect(wanted.length).toBeGreaterThan(100);
  const missing = wanted.filter(
    (route) =>
      !called.has(name(route)) &&
      !(name(route) in SAME_AS) &&
      !(name(route) in LEFT_OUT) &&
      !SOFT_DELETED.test(name(route)),
  );
  expect(missing.map(name)).toEqual([]);
});

it("nothing is named as left out that exists no more, or that a screen calls", () => {
  const called = calls();
  const known = new Set(routes().map(name));
  const named = [...Object.keys(SAME_AS), ...Object.keys(LEFT_OUT)];
  expect(named.filter((route) => !known.has(route))).toEqual([]);
  expect(Object.keys(LEFT_OUT).filter((route) => called.has(route))).toEqual([]);
});
