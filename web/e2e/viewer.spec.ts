import type { APIRequestContext, Page } from "@playwright/test";
import { checkPage, expect, logIn, settled, test, watch } from "./journey";
import { newProject, sendBatch, waitForEvents } from "./sdks";

/// New for each run: an account outlives its membership.
const RUN = Date.now();
/// A word in the name of everything that is hidden from the viewer.
const SECRET = `Zebra-${RUN}`;
const VIEWER = {
  email: `vera-${RUN}@example.com`,
  password: "journey-password-2",
  first_name: "Vera",
};

async function send(
  admin: APIRequestContext,
  method: "post" | "put" | "patch",
  path: string,
  data: object,
) {
  const answer = await admin[method](path, { data });
  expect(answer.ok(), `${path}: ${await answer.text()}`).toBe(true);
  return (await answer.json()) as { id: number; short_id: string };
}

interface Scene {
  project: number;
  secretProject: number;
  open: number;
  restricted: number;
  hidden: number;
  insight: string;
  hiddenInsight: string;
}

/// A project in which a member views dashboards and insights, and does not see some of them.
async function prepare(admin: APIRequestContext): Promise<Scene> {
  const project = await newProject(admin, "Viewed");
  const secretProject = await newProject(admin, `${SECRET} project`);
  const base = `/api/projects/${project.id}`;
  const member = await send(admin, "post", "/api/organizations/@current/members", VIEWER);
  const rule = (path: string, access_level: string, resource?: string) =>
    send(admin, "put", path, { access_level, resource, organization_member: member.id });
  await rule(`/api/projects/${secretProject.id}/access_controls`, "none");
  for (const kind of ["dashboard", "insight"]) {
    await rule(`${base}/resource_access_controls`, "viewer", kind);
  }
  const dashboard = (name: string, more = {}) =>
    send(admin, "post", `${base}/dashboards`, { name, ...more });
  const open = await dashboard("Growth");
  const restricted = await dashboard("Board meeting", { restriction_level: 37 });
  const hidden = await dashboard(`${SECRET} deals`, { pinned: true });
  await rule(`${base}/dashboards/${hidden.id}/access_controls`, "none");
  const query = {
    kind: "InsightVizNode",
    source: { kind: "TrendsQuery", series: [{ kind: "EventsNode", event: "signed up" }] },
  };
  const insight = (name: string, dashboards: number[]) =>
    send(admin, "post", `${base}/insights`, { name, query, saved: true, dashboards });
  const shown = await insight("Sign-ups", [open.id, restricted.id, hidden.id]);
  const secret = await insight(`${SECRET} revenue`, [open.id, hidden.id]);
  await rule(`${base}/insights/${secret.id}/access_controls`, "none");
  const flag = await send(admin, "post", `${base}/feature_flags`, {
    key: `${SECRET}-launch`,
    name: `${SECRET} launch`,
    filters: { groups: [{ properties: [], rollout_percentage: 50 }] },
    active: true,
  });
  await rule(`${base}/feature_flags/${flag.id}/access_controls`, "none");
  await send(admin, "post", `${base}/annotations`, {
    content: `${SECRET} note`,
    scope: "dashboard",
    dashboard_id: hidden.id,
    date_marker: new Date().toISOString(),
  });
  await send(admin, "patch", base, { primary_dashboard: hidden.id });
  await sendBatch(
    admin,
    project.key,
    Array.from({ length: 5 }, (_, at) => ({ event: "signed up", distinct_id: `d${at}` })),
  );
  await waitForEvents(admin, project, 5);
  return {
    project: project.id,
    secretProject: secretProject.id,
    open: open.id,
    restricted: restricted.id,
    hidden: hidden.id,
    insight: shown.short_id,
    hiddenInsight: secret.short_id,
  };
}

/// Collects the answers of the API that hold a hidden word.
function watchLeaks(page: Page, secret: string): string[] {
  const leaks: string[] = [];
  page.on("response", async (response) => {
    const isStream = response.headers()["content-type"]?.startsWith("text/event-stream");
    if (!response.url().includes("/api/") || isStream) return;
    const body = await response.text().catch(() => "");
    if (body.includes(secret)) leaks.push(response.url());
  });
  return leaks;
}

test("a viewer reads, is told why nothing changes, and learns nothing of what is hidden", async ({
  browser,
  playwright,
  admin,
}) => {
  test.slow();
  const scene = await prepare(admin);
  const context = await browser.newContext();
  await context.addCookies(await logIn(playwright.request, process.env.HEDGEROW_URL, VIEWER));
  const page = await context.newPage();
  const problems = watch(page, /status of 40[34]/);
  const leaks = watchLeaks(page, SECRET);
  const base = `/project/${scene.project}`;
  const learnsNothing = async () => {
    await settled(page);
    expect(await page.content()).not.toContain(SECRET);
    expect(leaks).toEqual([]);
  };

  await test.step("home, switcher and palette", async () => {
    await page.goto(`${base}/home`);
    await expect(page.getByRole("link", { name: "Sign-ups" })).toBeVisible();
    await learnsNothing();
    await page.getByRole("button", { name: /Project:/ }).click();
    await expect(page.getByRole("menuitem", { name: "Viewed chosen" })).toBeVisible();
    await learnsNothing();
    await page.keyboard.press("Escape");
    await page.keyboard.press("ControlOrMeta+k");
    await page.getByRole("combobox", { name: "Search and actions" }).fill("zebra-");
    await expect(page.getByText("Nothing has this name.")).toBeVisible();
    await page.keyboard.press("Escape");
  });

  await test.step("lists", async () => {
    await page.goto(`${base}/insights`);
    await expect(page.getByRole("listitem").filter({ hasText: "Sign-ups" })).toHaveCount(1);
    await learnsNothing();
    await page.getByRole("button", { name: "More for Sign-ups" }).click();
    await expect(page.getByRole("menuitem", { name: "Delete" })).toBeDisabled();
    await page.keyboard.press("Escape");
    await page.getByRole("checkbox", { name: "Choose Sign-ups" }).click();
    await expect(page.getByRole("button", { name: "Tag", exact: true })).toBeDisabled();
    await checkPage(page, "insights as a viewer");
    await page.goto(`${base}/feature_flags`);
    await expect(page.getByText("No feature flags yet")).toBeVisible();
    await learnsNothing();
    await page.goto(`${base}/dashboard`);
    await expect(page.getByRole("link", { name: "Growth" })).toBeVisible();
    await learnsNothing();
    await page.getByRole("button", { name: "Actions of Growth" }).click();
    await expect(page.getByRole("menuitem", { name: "Delete" })).toBeDisabled();
    await page.keyboard.press("Escape");
  });

  await test.step("a dashboard", async () => {
    await page.goto(`${base}/dashboard/${scene.open}`);
    await expect(page.getByText("You can view this but not edit it.")).toBeVisible();
    const tile = page.getByRole("article", { name: "Sign-ups" });
    await expect(tile.getByRole("figure")).toBeVisible();
    await learnsNothing();
    for (const name of ["Edit layout", "Add"]) {
      await expect(page.getByRole("button", { name, exact: true })).toHaveCount(0);
    }
    await checkPage(page, "dashboard as a viewer");
    await tile.getByRole("button", { name: "Actions of Sign-ups" }).click();
    await expect(page.getByRole("menuitem", { name: "Show as table" })).toBeVisible();
    await expect(page.getByRole("menuitem", { name: "Remove from dashboard" })).toHaveCount(0);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "More actions" }).click();
    for (const name of ["Name and description", "Pin", "Delete dashboard"]) {
      await expect(page.getByRole("menuitem", { name })).toBeDisabled();
    }
    await checkPage(page, "dashboard actions as a viewer");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Share", exact: true }).click();
    await expect(page.getByRole("switch", { name: "Public link" })).toBeDisabled();
    await checkPage(page, "share as a viewer");
    await learnsNothing();
    await page.goto(`${base}/dashboard/${scene.restricted}`);
    await expect(page.getByText("Only its author and collaborators can edit this.")).toBeVisible();
    await learnsNothing();
  });

  await test.step("an insight", async () => {
    await page.goto(`${base}/insights/${scene.insight}`);
    await expect(page.getByText("What you change here stays in the link")).toBeVisible();
    await expect(page.getByRole("application")).toBeVisible();
    await learnsNothing();
    await expect(page.getByRole("button", { name: "Saved" })).toBeDisabled();
    await expect(page.getByRole("button", { name: "Add to favorites" })).toBeDisabled();
    await page.keyboard.press("e");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await checkPage(page, "insight as a viewer");
    await page.getByRole("button", { name: "More actions" }).click();
    await expect(page.getByRole("menuitem", { name: "Delete" })).toBeDisabled();
    await page.getByRole("menuitem", { name: "Save as new" }).click();
    const dialog = page.getByRole("dialog", { name: "Save as new insight" });
    await dialog.getByRole("combobox", { name: "Dashboards" }).click();
    await expect(page.getByRole("option", { name: "Growth" })).toBeVisible();
    await learnsNothing();
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Save as new" }).click();
    await expect(dialog.getByText("You have no access to this")).toBeVisible();
    await checkPage(page, "refused save");
  });

  await test.step("the log, annotations and access rules", async () => {
    for (const [path, heading] of [
      ["activity-log", "Activity log"],
      ["data-management/annotations", "Definitions"],
      ["settings/access", "Access"],
    ] as const) {
      await page.goto(`${base}/${path}`);
      await expect(page.getByRole("heading", { name: heading, level: 1 })).toBeVisible();
      await learnsNothing();
    }
    await expect(page.getByRole("switch", { name: /^Private/ })).toBeDisabled();
  });

  await test.step("what is hidden is not found", async () => {
    for (const path of [
      `${base}/dashboard/${scene.hidden}`,
      `${base}/insights/${scene.hiddenInsight}`,
      `/project/${scene.secretProject}/home`,
      "/project/99999/home",
    ]) {
      await page.goto(path);
      await expect(page.getByRole("heading", { name: "Not found", level: 1 })).toBeVisible();
      await learnsNothing();
    }
    await checkPage(page, "project not found");
  });

  expect(problems).toEqual([]);
  await context.close();
});

test("a viewer of flags, actions and insights changes none, and finds nothing hidden in any list", async ({
  browser,
  playwright,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Viewed lists");
  // Not SECRET: Vito may see the project that is hidden from Vera.
  const secret = `Okapi-${RUN}`;
  const base = `/api/projects/${project.id}`;
  const viewer = {
    email: `vito-${RUN}@example.com`,
    password: "journey-password-5",
    first_name: "Vito",
  };
  const member = await send(admin, "post", "/api/organizations/@current/members", viewer);
  for (const resource of ["feature_flag", "action", "insight"]) {
    const rule = { access_level: "viewer", resource, organization_member: member.id };
    await send(admin, "put", `${base}/resource_access_controls`, rule);
  }
  const everybody = { properties: [], rollout_percentage: 100 };
  const hide = (kind: string, id: number) =>
    send(admin, "put", `${base}/${kind}/${id}/access_controls`, {
      access_level: "none",
      organization_member: member.id,
    });
  const cohort = await send(admin, "post", `${base}/cohorts`, { name: "Buyers", is_static: true });
  const ofCohort = { key: "id", type: "cohort", value: cohort.id };
  const flag = await send(admin, "post", `${base}/feature_flags`, {
    key: "cart",
    active: true,
    filters: { groups: [everybody] },
  });
  const hiddenFlag = await send(admin, "post", `${base}/feature_flags`, {
    key: `${secret}-flag`,
    active: true,
    filters: { groups: [{ properties: [ofCohort], rollout_percentage: 100 }] },
  });
  await hide("feature_flags", hiddenFlag.id);
  const steps = [{ event: "bought" }];
  const action = await send(admin, "post", `${base}/actions`, { name: "Bought", steps });
  const hiddenAction = await send(admin, "post", `${base}/actions`, {
    name: `${secret} action`,
    steps,
  });
  await hide("actions", hiddenAction.id);
  const insight = await send(admin, "post", `${base}/insights`, {
    name: "Rows",
    saved: true,
    query: { kind: "DataVisualizationNode", source: { kind: "HogQLQuery", query: "SELECT 1" } },
  });
  await sendBatch(admin, project.key, [{ event: "bought", distinct_id: "ann" }]);
  await waitForEvents(admin, project, 1);

  const context = await browser.newContext();
  await context.addCookies(await logIn(playwright.request, process.env.HEDGEROW_URL, viewer));
  const page = await context.newPage();
  const problems = watch(page, /status of 40[34]/);
  const leaks = watchLeaks(page, secret);
  const open = async (path: string, shown: string | RegExp) => {
    await page.goto(`/project/${project.id}/${path}`);
    await expect(page.getByText(shown).first()).toBeVisible();
    await settled(page);
    expect(await page.content(), path).not.toContain(secret);
    expect(leaks, path).toEqual([]);
  };

  await open("feature_flags", "cart");
  await expect(page.getByRole("switch", { name: "cart is on" })).toBeDisabled();
  await page.getByRole("checkbox", { name: "Choose cart" }).click();
  await expect(page.getByRole("button", { name: "Tags", exact: true })).toBeDisabled();
  await checkPage(page, "flags as a viewer");
  await page.getByRole("button", { name: "Actions of cart" }).click();
  await expect(page.getByRole("menuitem", { name: /^Delete/ })).toBeDisabled();
  for (const tab of ["why", "usage", "history", "access", "code"]) {
    await open(`feature_flags/${flag.id}?tab=${tab}`, "cart");
  }
  await open("data-management/actions", "Bought");
  await page.getByRole("button", { name: "Actions of Bought" }).click();
  for (const name of [/^Pin/, /^Delete/]) {
    await expect(page.getByRole("menuitem", { name })).toBeDisabled();
  }
  await open(`data-management/actions/${action.id}`, "You can view this but not edit it.");
  await expect(page.getByRole("textbox", { name: "Name" })).toHaveAttribute("readonly");
  await expect(page.getByRole("button", { name: "Add step" })).toHaveCount(0);
  for (const name of ["Saved", "Delete"]) {
    await expect(page.getByRole("button", { name, exact: true })).toBeDisabled();
  }
  await expect(page.getByRole("region", { name: "Matching events" })).toContainText("ann");
  await checkPage(page, "action as a viewer");
  await open(`sql?insight=${insight.short_id}`, "Rows");
  await expect(page.getByRole("button", { name: "Save", exact: true })).toBeDisabled();
  await open(`cohorts/${cohort.id}`, "Buyers");
  for (const [path, shown] of [
    ["cohorts", "Buyers"],
    ["data-management/events", "bought"],
    ["data-management/properties", "Property"],
    ["data-management/variables", "No variables yet"],
    ["persons", "ann"],
    ["groups/0", "No groups yet"],
    ["sql", "Ask anything"],
    ["activity-log", "Activity log"],
    ["instance/status", "Not found"],
  ] as const) {
    await open(path, shown);
  }
  await open("person/ann", "ann");
  await page.getByRole("tab", { name: "Feature flags" }).click();
  await expect(page.getByRole("row", { name: /cart/ })).toBeVisible();
  expect(leaks).toEqual([]);
  for (const path of [
    `feature_flags/${hiddenFlag.id}`,
    `data-management/actions/${hiddenAction.id}`,
  ]) {
    await open(path, "Not found");
  }
  expect(problems).toEqual([]);
  await context.close();
});

test("what one person opened is not shown to the next one in the same browser", async ({
  page,
  context,
  playwright,
  admin,
}) => {
  const project = await newProject(admin, "Shared browser");
  await admin.post(`/api/projects/${project.id}/dashboards`, { data: { name: "Only for admins" } });
  const openPalette = async () => {
    await page.goto(`/project/${project.id}/home`);
    await page.getByRole("button", { name: /^Search/ }).click();
    await expect(page.getByRole("option", { name: /Go to insights/ })).toBeVisible();
  };
  await openPalette();
  await page.keyboard.type("only for");
  await page.getByRole("option", { name: /Only for admins/ }).click();
  await expect(page.getByRole("heading", { name: "Only for admins", level: 1 })).toBeVisible();
  await openPalette();
  await expect(page.getByRole("option", { name: /Only for admins/ })).toBeVisible();
  const other = {
    email: `otto-${RUN}@example.com`,
    password: "journey-password-3",
    first_name: "Otto",
  };
  await send(admin, "post", "/api/organizations/@current/members", other);
  await context.clearCookies();
  await context.addCookies(await logIn(playwright.request, process.env.HEDGEROW_URL, other));
  await openPalette();
  await expect(page.getByRole("option", { name: /Only for admins/ })).toHaveCount(0);
});
