import type { APIRequestContext } from "@playwright/test";
import { checkPage, checkPresentWidth, expect, PROJECT_KEY, test } from "./journey";

const DAY_MS = 86_400_000;

/// Sends page views of the last ten days, from a few people in two browsers.
async function capture(admin: APIRequestContext, event: string, perDay: number) {
  const batch = Array.from({ length: 10 * perDay }, (_, at) => ({
    event,
    distinct_id: `visitor-${Math.floor(at / 2) % 3}`,
    timestamp: new Date(
      Date.now() - Math.floor(at / perDay) * DAY_MS - (at % perDay) * 60_000,
    ).toISOString(),
    properties: {
      $browser: at % 2 ? "Firefox" : "Chrome",
      $current_url: `https://site.example/page-${at % 3}`,
    },
  }));
  const answer = await admin.post("/batch", { data: { api_key: PROJECT_KEY, batch } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

interface Made {
  id: number;
}

async function makeDashboard(admin: APIRequestContext, name: string, event: string): Promise<Made> {
  const made = await admin.post("/api/projects/1/dashboards", { data: { name } });
  const { id } = (await made.json()) as Made;
  const series = [{ kind: "EventsNode", event }];
  const dateRange = { date_from: "-14d" };
  const queries: [string, object][] = [
    ["Views", { kind: "TrendsQuery", series, dateRange }],
    ["Steps", { kind: "FunnelsQuery", series: [...series, ...series], dateRange }],
    ["Return", { kind: "RetentionQuery", retentionFilter: { period: "Day", totalIntervals: 7 } }],
    ["Growth", { kind: "LifecycleQuery", series, dateRange }],
    ["Habit", { kind: "StickinessQuery", series, dateRange }],
    ["Ways", { kind: "PathsQuery", pathsFilter: { includeEventTypes: ["$pageview"] }, dateRange }],
  ];
  for (const [title, source] of queries) {
    const answer = await admin.post("/api/projects/1/insights", {
      data: {
        name: `${name} ${title}`,
        query: { kind: "InsightVizNode", source },
        saved: true,
        dashboards: [id],
      },
    });
    expect(answer.ok(), await answer.text()).toBe(true);
  }
  return { id };
}

test("a dashboard is made from a template, pinned, found, copied and deleted with undo", async ({
  page,
}) => {
  const name = "Journey overview";
  await page.goto("/project/1/dashboard");
  await page.getByRole("button", { name: "New dashboard" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New dashboard" });
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByText("Product overview").click();
  await checkPage(page, "new dashboard");
  await dialog.getByRole("button", { name: "Create dashboard" }).click();
  await expect(page.getByRole("heading", { name, level: 1 })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Daily active users" })).toBeVisible();

  await page.goto("/project/1/dashboard");
  await page.getByRole("searchbox", { name: "Search dashboards" }).fill("journey over");
  await expect(page).toHaveURL(/search=journey/);
  await page.getByRole("button", { name: `Actions of ${name}` }).click();
  await checkPage(page, "dashboard actions");
  await page.getByRole("menuitem", { name: "Pin" }).click();
  await expect(page.getByRole("img", { name: "Pinned" })).toBeVisible();

  await page.getByRole("button", { name: `Actions of ${name}` }).click();
  await page.getByRole("menuitem", { name: "Copy" }).click();
  await checkPage(page, "copy dashboard");
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await expect(page.getByRole("heading", { name: `${name} (copy)`, level: 1 })).toBeVisible();

  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete dashboard" }).click();
  await expect(page.getByText(`Deleted “${name} (copy)”`)).toBeVisible();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByRole("searchbox", { name: "Search dashboards" }).fill("(copy)");
  await expect(page.getByRole("link", { name: `${name} (copy)` })).toBeVisible();
});

test("tiles of all six kinds draw, and follow new events", async ({ page, admin }) => {
  test.slow();
  await capture(admin, "$pageview", 6);
  const { id } = await makeDashboard(admin, "Six kinds", "$pageview");
  await page.goto(`/project/1/dashboard/${id}`);
  for (const title of ["Views", "Steps", "Return", "Growth", "Habit", "Ways"]) {
    const tile = page.getByRole("article", { name: `Six kinds ${title}` });
    await tile.scrollIntoViewIfNeeded();
    await expect(tile.getByRole("figure").first()).toBeVisible();
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  await checkPage(page, "dashboard");

  const views = page.getByRole("article", { name: "Six kinds Views" });
  await views.getByRole("button", { name: "Actions of Six kinds Views" }).click();
  // The narrow grid draws its tiles anew, which closes their menus.
  await checkPresentWidth(page, "tile actions");
  await page.getByRole("menuitem", { name: "Show as table" }).click();
  await expect(views.getByRole("table")).toBeVisible();
});

test("a flag's change on a tile opens the time before and after it", async ({ page, admin }) => {
  await capture(admin, "$pageview", 6);
  const { id } = await makeDashboard(admin, "Marked", "$pageview");
  const groups = [{ properties: [], rollout_percentage: 50 }];
  const flag = { key: "marked-on-tiles", filters: { groups } };
  expect((await admin.post("/api/projects/1/feature_flags", { data: flag })).ok()).toBe(true);
  await page.goto(`/project/1/dashboard/${id}`);
  const tile = page.getByRole("article", { name: "Marked Views" });
  await tile.getByRole("button", { name: /^Flag .*: compare before and after$/ }).click();
  await expect(page.getByRole("heading", { name: "Marked Views", level: 1 })).toBeVisible();
  await expect(page.getByText("vs previous period")).toBeVisible();
});

test("a new insight of a dashboard stands on it when it is saved", async ({ page, admin }) => {
  await capture(admin, "$pageview", 1);
  const made = await admin.post("/api/projects/1/dashboards", { data: { name: "Begun empty" } });
  const { id } = (await made.json()) as Made;
  await page.goto(`/project/1/dashboard/${id}`);
  await page.getByRole("button", { name: "Add", exact: true }).first().click();
  await page.getByRole("menuitem", { name: "New insight" }).click();
  await expect(page.getByRole("application")).toBeVisible();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Save insight" });
  await dialog.getByLabel("Name").fill("Made for it");
  await dialog.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Begun empty", level: 1 })).toBeVisible();
  await expect(page.getByRole("article", { name: "Made for it" })).toBeVisible();
});

test("filters stay in the URL until they are saved", async ({ page, admin }) => {
  const { id } = await makeDashboard(admin, "Ranges", "$pageview");
  const stored = async () => {
    const answer = await admin.get(`/api/projects/1/dashboards/${id}`);
    return ((await answer.json()) as { persisted_filters: unknown }).persisted_filters;
  };
  await page.goto(`/project/1/dashboard/${id}`);
  await page.getByRole("button", { name: /^Range:/ }).click();
  await expect(page.getByRole("textbox", { name: "As text" })).toBeVisible();
  await checkPage(page, "range");
  await page.getByRole("button", { name: "Last 7 days" }).click();
  await expect(page).toHaveURL(/date_from=-7d/);
  expect(await stored()).toBeNull();
  await page.reload();
  await expect(page.getByRole("button", { name: "Range: Last 7 days" })).toBeVisible();
  await page.getByRole("button", { name: "Save as default" }).click();
  await expect(page.getByText("Saved as the default of this dashboard")).toBeVisible();
  await expect(page).not.toHaveURL(/date_from/);
  expect(await stored()).toEqual({ date_from: "-7d" });
});

test("tiles move by menu, are added and removed with undo", async ({ page, admin }) => {
  const { id } = await makeDashboard(admin, "Places", "$pageview");
  await page.goto(`/project/1/dashboard/${id}`);
  await expect(page.getByRole("article").first()).toHaveAccessibleName("Places Views");
  await page.getByRole("button", { name: "Actions of Places Views" }).click();
  await page.getByRole("menuitem", { name: "Move down" }).click();
  await expect(page.getByRole("article", { name: "Places Return" })).toBeVisible();
  await expect(page.getByRole("article").first()).not.toHaveAccessibleName("Places Views");

  await page.getByRole("button", { name: "Actions of Places Views" }).click();
  await page.getByRole("menuitem", { name: "Position and size" }).click();
  await checkPage(page, "position and size");
  await page.getByRole("button", { name: "Done" }).click();

  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("menuitem", { name: "Text" }).click();
  await page.getByRole("textbox", { name: "Text" }).fill("# Plan\n\n<b>no HTML</b> **bold**");
  await checkPage(page, "text tile");
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  const text = page.getByRole("article", { name: "Plan" });
  await expect(text.getByText("<b>no HTML</b>")).toBeVisible();

  await text.hover();
  await page.getByRole("button", { name: "Actions of Plan" }).click();
  await page.getByRole("menuitem", { name: "Remove from dashboard" }).click();
  await expect(text).toHaveCount(0);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(text).toBeVisible();
});

test("a phone shows one column and says why tiles cannot be moved", async ({ page, admin }) => {
  const { id } = await makeDashboard(admin, "Phone", "$pageview");
  await page.setViewportSize({ width: 375, height: 740 });
  await page.goto(`/project/1/dashboard/${id}`);
  await expect(page.getByText("On narrow screens tiles stand in one column")).toBeVisible();
  await expect(page.getByRole("button", { name: "Edit layout" })).toHaveCount(0);
});

test.describe("with two editors", () => {
  test.use({ expectedErrors: /status of 409/ });

  test("a changed dashboard is not overwritten unawares", async ({ page, admin }) => {
    test.slow();
    const created = await admin.post("/api/projects/1/dashboards", {
      data: { name: "Edited by two", description: "" },
    });
    const { id } = (await created.json()) as Made;
    const path = `/api/projects/1/dashboards/${id}`;
    const stored = async () => (await (await admin.get(path)).json()) as { description: string };
    await page.goto(`/project/1/dashboard/${id}`);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Name and description" }).click();
    const form = page.getByRole("dialog", { name: "Name and description" });
    await form.getByLabel("Description").fill("Mine");
    await admin.patch(path, { data: { description: "Theirs" } });
    await form.getByRole("button", { name: "Save" }).click();
    const dialog = page.getByRole("dialog", { name: "This dashboard was changed meanwhile" });
    await expect(dialog.getByText("Admin", { exact: true })).toBeVisible();
    await checkPage(page, "dashboard conflict");
    await dialog.getByRole("button", { name: "Keep editing" }).click();
    await expect(form.getByLabel("Description")).toHaveValue("Mine");
    expect((await stored()).description).toBe("Theirs");

    await form.getByRole("button", { name: "Save" }).click();
    await dialog.getByRole("button", { name: "Save mine over it" }).click();
    await expect(form).toBeHidden();
    expect((await stored()).description).toBe("Mine");

    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Name and description" }).click();
    await form.getByLabel("Description").fill("Mine again");
    await admin.patch(path, { data: { description: "Theirs again" } });
    await form.getByRole("button", { name: "Save" }).click();
    await dialog.getByRole("button", { name: "Load theirs" }).click();
    await expect(form).toBeHidden();
    await expect(page.getByText("Theirs again")).toBeVisible();
  });
});
