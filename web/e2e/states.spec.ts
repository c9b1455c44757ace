import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { APIRequestContext, Page, Route } from "@playwright/test";
import { LAN_HOST } from "../playwright.config";
import { ADMIN, checkPage, expect, logIn, PROJECT_KEY, preloaded, settled, test } from "./journey";
import { SECRETS, startPreview, startServer, stop } from "./programs.mjs";
import { newProject, sendBatch, waitForEvents } from "./sdks";

const TREND = {
  kind: "TrendsQuery",
  series: [{ kind: "EventsNode", event: "signed up" }],
};

function draft(query: object): string {
  return `#q=${encodeURIComponent(JSON.stringify(query))}`;
}

async function addInsight(
  admin: APIRequestContext,
  project: number,
  name: string,
  source: object,
  dashboards: number[] = [],
): Promise<string> {
  const answer = await admin.post(`/api/projects/${project}/insights`, {
    data: { name, saved: true, dashboards, query: { kind: "InsightVizNode", source } },
  });
  expect(answer.ok(), await answer.text()).toBe(true);
  return ((await answer.json()) as { short_id: string }).short_id;
}

async function addDashboard(
  admin: APIRequestContext,
  project: number,
  name: string,
): Promise<number> {
  const answer = await admin.post(`/api/projects/${project}/dashboards`, { data: { name } });
  expect(answer.ok(), await answer.text()).toBe(true);
  return ((await answer.json()) as { id: number }).id;
}

/// A project with events, a group, an insight, a dashboard, a flag and a cohort.
async function furnished(admin: APIRequestContext, name: string) {
  const project = await newProject(admin, name);
  const dashboard = await addDashboard(admin, project.id, "Growth");
  const insight = await addInsight(admin, project.id, "Sign-ups", TREND, [dashboard]);
  const batch = Array.from({ length: 5 }, (_, at) => ({
    event: "signed up",
    distinct_id: `d${at}`,
  }));
  const group = { $group_type: "company", $group_key: "acme", $group_set: { size: 4 } };
  const identify = { event: "$groupidentify", distinct_id: "d0", properties: group };
  await sendBatch(admin, project.key, [...batch, identify]);
  await waitForEvents(admin, project, batch.length + 1);
  const make = async (kind: string, data: object) => {
    const made = await admin.post(`/api/projects/${project.id}/${kind}`, { data });
    return ((await made.json()) as { id: number }).id;
  };
  const filters = { groups: [{ rollout_percentage: 50 }] };
  const flag = await make("feature_flags", { key: "beta", filters });
  const cohort = await make("cohorts", { name: "Testers", is_static: true });
  return { project, dashboard, insight, flag, cohort };
}

test("each screen of an empty project says what it is for", async ({ page, admin }) => {
  test.slow();
  const project = await newProject(admin, "Empty");
  const dashboard = await addDashboard(admin, project.id, "Nothing on it");
  const withoutDashboards = await newProject(admin, "Emptier");
  for (const [path, text] of [
    [`${project.id}/home`, "No events yet"],
    [`${withoutDashboards.id}/dashboard`, "No dashboards yet"],
    [`${project.id}/dashboard/${dashboard}`, "This dashboard is empty"],
    [`${project.id}/insights`, "No insights yet"],
    [`${project.id}/insights/new`, "There is nothing to ask about yet"],
    [`${project.id}/activity/live?tab=refused`, "Nothing was refused"],
    [`${project.id}/data-management/events`, "No event definitions yet"],
    [`${project.id}/data-management/properties`, "No properties yet"],
    [`${project.id}/data-management/actions`, "No actions yet"],
    [`${project.id}/data-management/annotations`, "No annotations yet"],
    [`${project.id}/data-management/variables`, "No variables yet"],
    [`${project.id}/persons`, "No persons yet"],
    [`${project.id}/groups/0`, "No groups yet"],
    [`${project.id}/cohorts`, "No cohorts yet"],
    [`${project.id}/feature_flags`, "No feature flags yet"],
  ] as const) {
    await page.goto(`/project/${path}`);
    await expect(page.getByText(text)).toBeVisible();
    await settled(page);
    await checkPage(page, `empty ${path.replace(/^\d+\//, "")}`);
  }
});

/// The reads of the screens' own data, apart from the person and the project.
const OWN_READS = new RegExp(
  [
    `/api/projects/\\d+/(${[
      "query|events|insights|dashboards|event_definitions|property_definitions|ingestion_warnings",
      "actions|annotations|insight_variables|activity_log|persons|groups|cohorts|feature_flags",
      "access_controls|resource_access_controls",
    ].join("|")})`,
    "/api/organizations/[^/]+/(members|roles)",
    "/api/(personal_api_keys|instance_status)",
  ].join("|"),
);

type Made = Awaited<ReturnType<typeof furnished>>;

function screens({ project, dashboard, insight, flag }: Made): string[] {
  const base = `/project/${project.id}`;
  return [
    `${base}/home`,
    `${base}/dashboard`,
    `${base}/dashboard/${dashboard}`,
    `${base}/insights`,
    `${base}/insights/${insight}`,
    `${base}/activity/explore`,
    `${base}/activity/live?tab=refused`,
    `${base}/data-management/events`,
    `${base}/data-management/actions`,
    `${base}/activity-log`,
    `${base}/persons`,
    `${base}/cohorts`,
    `${base}/feature_flags`,
    `${base}/feature_flags/${flag}`,
  ];
}

/// Screens made of the same parts as those above: their skeletons are not looked at by axe again.
function furtherScreens({ project, cohort }: Made): string[] {
  const base = `/project/${project.id}`;
  return [
    `${base}/data-management/properties`,
    `${base}/data-management/annotations`,
    `${base}/data-management/variables`,
    `${base}/person/d0`,
    `${base}/groups/0`,
    `${base}/groups/0/acme`,
    `${base}/cohorts/${cohort}`,
    `${base}/settings/members`,
    `${base}/settings/roles`,
    `${base}/settings/keys`,
    `${base}/settings/access`,
    `${base}/instance/status`,
  ];
}

test("each screen shows its shape while it loads", async ({ page, admin }) => {
  test.slow();
  const made = await furnished(admin, "Slow");
  const further = furtherScreens(made);
  for (const path of [...screens(made), ...further]) {
    const held: Route[] = [];
    const hold = (route: Route) => {
      held.push(route);
    };
    await page.route(OWN_READS, hold);
    await page.goto(path);
    await expect(page.locator("main .skeleton").first()).toBeVisible();
    if (!further.includes(path)) await checkPage(page, `loading ${path}`);
    await page.unroute(OWN_READS, hold);
    await Promise.all(held.map((route) => route.continue().catch(() => {})));
    await settled(page);
  }
});

test.describe("a server that fails", () => {
  test.use({ expectedErrors: /status of 500/ });

  test("each screen says what failed, with the request's id, and tries again", async ({
    page,
    admin,
  }) => {
    test.slow();
    const made = await furnished(admin, "Failing");
    const fail = (route: Route) =>
      route.fulfill({
        status: 500,
        headers: { "x-request-id": "0000-journey" },
        json: {
          type: "server_error",
          code: "error",
          detail: "A server error occurred.",
          attr: null,
        },
      });
    for (const path of [...screens(made), ...furtherScreens(made)]) {
      await page.route(OWN_READS, fail);
      await page.goto(path);
      const alert = page.getByRole("alert").first();
      await expect(alert).toContainText("A server error occurred.");
      await expect(alert).toContainText("0000-journey");
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await checkPage(page, `failed ${path}`);
      await page.unroute(OWN_READS, fail);
      const retry = page.getByRole("button", { name: "Try again" }).first();
      await expect(async () => {
        while (await retry.isVisible()) await retry.click({ timeout: 500 });
        await expect(page.getByRole("alert")).toHaveCount(0, { timeout: 500 });
      }).toPass();
      await settled(page);
    }
  });
});

test.describe("a tile that cannot be calculated", () => {
  test.use({ expectedErrors: /status of 400/ });

  test("says so, and the others stay", async ({ page, admin }) => {
    const { project, dashboard } = await furnished(admin, "One bad tile");
    const condition = { key: "plan", type: "person", value: "pro", operator: "exact" };
    const values = [{ type: "AND", values: [condition] }];
    const made = await admin.post(`/api/projects/${project.id}/cohorts`, {
      data: { name: "Gone", filters: { properties: { type: "AND", values } } },
    });
    const { id } = (await made.json()) as { id: number };
    const properties = [{ type: "cohort", key: "id", value: id }];
    await addInsight(admin, project.id, "Broken", { ...TREND, properties }, [dashboard]);
    await admin.patch(`/api/projects/${project.id}/cohorts/${id}`, { data: { deleted: true } });
    await page.goto(`/project/${project.id}/dashboard/${dashboard}`);
    const broken = page.getByRole("article", { name: "Broken" });
    await expect(broken.getByRole("alert")).toContainText("could not be calculated");
    await expect(page.getByRole("article", { name: "Sign-ups" }).getByRole("figure")).toBeVisible();
    await checkPage(page, "dashboard with a failed tile");
    await page.goto(`/project/${project.id}/insights`);
    await expect(page.getByRole("listitem").filter({ hasText: "Broken" })).toContainText(
      `Cohort ${id} does not exist`,
    );
    await expect(
      page.getByRole("listitem").filter({ hasText: "Sign-ups" }).getByRole("figure"),
    ).toBeAttached();
  });
});

test("ten thousand events scroll", async ({ page, admin }) => {
  test.slow();
  const project = await newProject(admin, "Ten thousand");
  const start = Date.parse("2026-01-01T00:00:00Z");
  for (let from = 0; from < 10_500; from += 3_500) {
    await sendBatch(
      admin,
      project.key,
      Array.from({ length: 3_500 }, (_, at) => ({
        event: "counted",
        distinct_id: `d${at % 50}`,
        timestamp: new Date(start + (from + at) * 1_000).toISOString(),
        properties: { number: from + at },
      })),
    );
  }
  await waitForEvents(admin, project, 10_500);
  const columns = encodeURIComponent('["event","properties.number"]');
  await page.goto(`/project/${project.id}/activity/explore?columns=${columns}`);
  const table = page.getByRole("region", { name: "Events" });
  await expect(page.getByRole("cell", { name: "10499", exact: true })).toBeVisible();
  const done = page.getByText("The first 10,000 events.");
  await expect(async () => {
    await table.evaluate((region) => region.scrollTo({ top: region.scrollHeight }));
    await expect(done).toBeVisible({ timeout: 100 });
  }).toPass({ intervals: [50] });
  await table.evaluate((region) => region.scrollTo({ top: region.scrollHeight }));
  await expect(page.getByRole("cell", { name: "500", exact: true })).toBeVisible();
  await expect(page.getByRole("table")).toHaveAttribute("aria-rowcount", "10001");
  expect(await page.getByRole("row").count()).toBeLessThan(80);
  await expect(page.getByRole("columnheader", { name: "Event" })).toBeInViewport();
  await checkPage(page, "ten thousand events");
});

test.describe("an expired session", () => {
  test.use({ expectedErrors: /status of 401/ });

  test("in the middle of a save: the draft survives, and the save goes on", async ({
    page,
    context,
    admin,
  }) => {
    const { project } = await furnished(admin, "Expired");
    await page.goto(`/project/${project.id}/insights/new`);
    await page.getByRole("button", { name: /^Range:/ }).click();
    await page.getByRole("button", { name: "Last 30 days" }).click();
    await expect(page).toHaveURL(/-30d/);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    const save = page.getByRole("dialog", { name: "Save insight" });
    await save.getByLabel("Name").fill("Kept over the log-in");
    await context.clearCookies();
    await save.getByRole("button", { name: "Save" }).click();
    const again = page.getByRole("dialog", { name: "Log in again" });
    await expect(again).toBeVisible();
    await checkPage(page, "log in again over a save");
    await again.getByRole("button", { name: "Close" }).click();
    await expect(save.getByRole("alert")).toBeVisible();
    await expect(save.getByLabel("Name")).toHaveValue("Kept over the log-in");
    await save.getByRole("button", { name: "Save" }).click();
    await expect(again.getByLabel("E-mail")).toHaveValue(ADMIN.email);
    await again.getByLabel("Password").fill(ADMIN.password);
    await again.getByRole("button", { name: "Log in" }).click();
    await expect(
      page.getByRole("heading", { name: "Kept over the log-in", level: 1 }),
    ).toBeVisible();
    await expect(page.getByRole("button", { name: "Range: Last 30 days" })).toBeVisible();
  });

  test("at a reload: the draft waits in the fragment, which no log shows", async ({
    page,
    context,
    admin,
  }) => {
    const { project, flag } = await furnished(admin, "Reloaded");
    await page.goto(`/project/${project.id}/feature_flags/${flag}`);
    await page.getByLabel("Description", { exact: true }).fill("Kept over the reload");
    await expect(page).toHaveURL(/#q=.*Kept/);
    await context.clearCookies();
    await page.reload();
    await expect(page).toHaveURL(/\/login\?next=[^#]*feature_flags[^#]*#q=.*Kept/);
    expect(new URL(page.url()).search).not.toContain("Kept");
    await page.getByLabel("E-mail").fill(ADMIN.email);
    await page.getByLabel("Password").fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page.getByLabel("Description", { exact: true })).toHaveValue(
      "Kept over the reload",
    );
  });
});

test.describe("a server that is killed", () => {
  test.use({ loggedIn: false, expectedErrors: /net::ERR|Failed to load resource/ });

  test("in the middle of an edit: the draft stays, reads go on, the save is repeated by hand", async ({
    page,
    context,
    playwright,
  }) => {
    test.slow();
    const binary = process.env.HEDGEROW_BIN;
    if (!binary) throw new Error("npm run e2e names the binary in HEDGEROW_BIN");
    const data = mkdtempSync(join(tmpdir(), "hedgerow-e2e-killed-"));
    let server = await startServer(binary, data, "127.0.0.1:0");
    const preview = process.env.HEDGEROW_PREVIEW ? await startPreview(server.url) : null;
    try {
      const baseURL = preview?.url ?? server.url;
      const admin = await playwright.request.newContext({
        baseURL: server.url,
        extraHTTPHeaders: { Authorization: `Bearer ${SECRETS.personal}` },
      });
      const project = { id: 1, key: PROJECT_KEY };
      await sendBatch(admin, project.key, [{ event: "signed up", distinct_id: "ann" }]);
      await waitForEvents(admin, project, 1);
      const id = await addInsight(admin, 1, "Outlives the server", TREND);
      await context.addCookies(await logIn(playwright.request, baseURL, ADMIN));
      await page.goto(`${baseURL}/project/1/insights/${id}`);
      await expect(page.getByRole("application")).toBeVisible();
      await preloaded(page);
      await stop(server.child, "SIGKILL");

      await page.getByRole("button", { name: /^Range:/ }).click();
      await page.getByRole("button", { name: "Last 30 days" }).click();
      const banner = page.getByText("The server does not answer.", { exact: true });
      await expect(banner).toBeVisible();
      await expect(page).toHaveURL(/-30d/);
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.getByText("The insight was not saved").first()).toBeVisible();
      await checkPage(page, "server killed");
      // The dialog was never opened: its code is on the server.
      await page.getByRole("button", { name: "More actions" }).click();
      await page.getByRole("menuitem", { name: "Save as new" }).click();

      server = await startServer(binary, data, new URL(server.url).host);
      // Unless the page has tried by itself.
      const now = page.getByRole("button", { name: "Try now" });
      await now.click({ timeout: 1_000 }).catch(() => {});
      await expect(banner).toBeHidden();
      const dialog = page.getByRole("dialog", { name: "Save as new insight" });
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await expect(dialog).toBeHidden();
      await expect(page.getByRole("button", { name: "Range: Last 30 days" })).toBeVisible();
      await settled(page);
      await expect(page.getByRole("application")).toBeVisible();
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.getByRole("button", { name: "Saved" })).toBeVisible();
      await sendBatch(admin, project.key, [{ event: "signed up", distinct_id: "ben" }]);
      await page.getByRole("tab", { name: "Table" }).click();
      await expect(
        page.getByRole("cell", { name: "2", exact: true }).first(),
        "the stream is open again",
      ).toBeVisible();
      await admin.dispose();
    } finally {
      await stop(server.child);
      if (preview) await stop(preview.child);
      rmSync(data, { recursive: true, force: true });
    }
  });
});

test("seven tabs share one stream, and each follows new events", async ({
  page,
  context,
  admin,
}) => {
  test.slow();
  const { project } = await furnished(admin, "Tabs");
  let streams = 0;
  context.on("request", (request) => {
    if (/\/pulse$/.test(request.url())) streams++;
  });
  const number = { ...TREND, trendsFilter: { display: "BoldNumber" } };
  const tabs: Page[] = [page];
  while (tabs.length < 7) tabs.push(await context.newPage());
  for (const tab of tabs) {
    await tab.goto(`/project/${project.id}/insights/new${draft(number)}`);
    await expect(tab.getByRole("figure").getByRole("button")).toHaveText("5");
  }
  let sent = 5;
  for (const tab of [page, tabs.at(-1) ?? page]) {
    await tab.bringToFront();
    await expect(async () => {
      await sendBatch(admin, project.key, [{ event: "signed up", distinct_id: `late ${sent++}` }]);
      await expect(tab.getByRole("figure").getByRole("button")).toHaveText(String(sent), {
        timeout: 5_000,
      });
    }).toPass();
  }
  expect(streams, "streams of pages; the worker has the one").toBe(0);
});

test.describe("on plain HTTP in a LAN", () => {
  // Chromium says that it ignores the header there; over HTTPS it counts.
  test.use({
    loggedIn: false,
    expectedErrors: /Cross-Origin-Opener-Policy header has been ignored/,
  });

  test("there is no clipboard API and no randomUUID, and nothing needs them", async ({
    page,
    admin,
  }) => {
    const { project, insight } = await furnished(admin, "LAN");
    const url = new URL(process.env.HEDGEROW_URL ?? "");
    const origin = `http://${LAN_HOST}:${url.port}`;
    await page.goto(`${origin}/login`);
    expect(await page.evaluate(() => [isSecureContext, "clipboard" in navigator])).toEqual([
      false,
      false,
    ]);
    await page.getByLabel("E-mail").fill(ADMIN.email);
    await page.getByLabel("Password").fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page).toHaveURL(/\/home/);
    await page.goto(`${origin}/project/${project.id}/insights/${insight}`);
    await expect(page.getByRole("application")).toBeVisible();
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Copy link" }).click();
    await expect(page.getByText("Copied")).toBeVisible();
    await page.getByRole("button", { name: "Add to favorites" }).click();
    await expect(page.getByRole("button", { name: "Remove from favorites" })).toBeVisible();
    await page.goto(`${origin}/project/${project.id}/onboarding`);
    await page.getByRole("tabpanel").getByRole("button", { name: "Copy" }).first().click();
    await expect(page.getByRole("button", { name: "Copied" }).first()).toBeVisible();
    await sendBatch(admin, project.key, [{ event: "from the LAN", distinct_id: "d" }]);
    await expect(page.getByText("“from the LAN” from d is here.")).toBeVisible();
  });
});
