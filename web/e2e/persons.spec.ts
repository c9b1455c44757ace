import { readFile } from "node:fs/promises";
import type { APIRequestContext, Page } from "@playwright/test";
import { checkPage, expect, settled, test } from "./journey";
import { newProject, sendBatch, type TestProject, waitForEvents } from "./sdks";

const GROUPS = { $groups: { company: "acme" } };
const FLAG_CALL = { $feature_flag: "new-cart", $feature_flag_response: "control" };

function shop() {
  const set = { email: "ann@example.com", plan: "pro", seats: 3 };
  return [
    { event: "searched", distinct_id: "ann-anon", properties: { query: "boots" } },
    {
      event: "$identify",
      distinct_id: "ann",
      properties: { $anon_distinct_id: "ann-anon", $set: set },
    },
    { event: "order placed", distinct_id: "ann", properties: { amount: 12.5, ...GROUPS } },
    { event: "$feature_flag_called", distinct_id: "ann", properties: FLAG_CALL },
    {
      event: "$groupidentify",
      distinct_id: "ann",
      properties: {
        $group_type: "company",
        $group_key: "acme",
        $group_set: { name: "Acme Ltd", size: 40 },
      },
    },
    {
      event: "order placed",
      distinct_id: "ben",
      properties: { amount: 99, $set: { email: "ben@example.com", plan: "free" } },
    },
    {
      event: "order placed",
      distinct_id: "ben-phone",
      properties: { amount: 1, $set: { email: "ben@phone.example", shoe: 44 } },
    },
  ];
}

async function furnished(admin: APIRequestContext, name: string): Promise<TestProject> {
  const project = await newProject(admin, name);
  const flag = await admin.post(`/api/projects/${project.id}/feature_flags`, {
    data: {
      key: "new-cart",
      active: true,
      filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
    },
  });
  expect(flag.ok(), await flag.text()).toBe(true);
  await sendBatch(admin, project.key, shop());
  await waitForEvents(admin, project, shop().length);
  return project;
}

function row(page: Page, name: string | RegExp) {
  return page.getByRole("row", { name });
}

async function openTab(page: Page, name: string | RegExp) {
  await page.getByRole("tab", { name }).click();
  await settled(page);
}

test("persons are searched, filtered, opened and downloaded", async ({ page, admin }) => {
  test.slow();
  const project = await furnished(admin, "Persons");
  await page.goto(`/project/${project.id}/persons`);
  await expect(page.getByRole("row")).toHaveCount(4);
  await expect(page.getByText("3 persons.")).toBeVisible();
  await checkPage(page, "persons");

  await page.getByRole("searchbox", { name: "Search persons" }).fill("ben");
  await expect(page.getByRole("row")).toHaveCount(3);
  await expect(page).toHaveURL(/search=ben/);
  await page.getByRole("searchbox", { name: "Search persons" }).fill("ann-anon");
  await expect(row(page, /ann@example.com/)).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.getByRole("searchbox", { name: "Search persons" }).fill("");

  await page.getByRole("combobox", { name: "Add filter" }).click();
  await page.getByRole("combobox", { name: /Search property/ }).fill("plan");
  await page.getByRole("option", { name: "plan" }).click();
  await page.getByRole("combobox", { name: "Value" }).click();
  await page.getByRole("option", { name: /pro/ }).click();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("columnheader", { name: "plan" })).toBeVisible();
  await checkPage(page, "persons filtered");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "CSV" }).click(),
  ]);
  const csv = await readFile(await download.path(), "utf8");
  expect(csv.trim().split(/\r?\n/)).toHaveLength(2);
  expect(csv).toContain("ann@example.com");

  await row(page, /ann@example.com/)
    .getByRole("link")
    .click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText("ann@example.com");
  const timeline = page.getByRole("region", { name: "Timeline" });
  await expect(timeline.getByRole("button")).toHaveCount(5);
  await checkPage(page, "person timeline");
  await sendBatch(admin, project.key, [{ event: "came back", distinct_id: "ann" }]);
  await expect(timeline.getByRole("button", { name: /came back/ })).toBeVisible();
  await timeline.getByRole("button", { name: /order placed/ }).click();
  await expect(page.getByRole("dialog", { name: "order placed" })).toContainText("12.5");
  await page.getByRole("button", { name: "Close" }).click();

  await openTab(page, "Feature flags");
  await expect(row(page, /new-cart.*control.*true.*Differs/)).toBeVisible();
  await expect(page.getByRole("link", { name: "Every step of new-cart" })).toHaveAttribute(
    "href",
    /feature_flags\/\d+\?tab=why&who=%22/,
  );
  await checkPage(page, "person flags");
  await openTab(page, "Groups");
  await expect(page.getByRole("link", { name: "Acme Ltd" })).toBeVisible();
  await checkPage(page, "person groups");
});

test("properties are edited in place, ids split and persons merged", async ({ page, admin }) => {
  test.slow();
  const project = await furnished(admin, "Edited persons");
  // PostHog's link by a distinct id.
  await page.goto(`/project/${project.id}/person/ann`);
  await expect(page).toHaveURL(/persons\/[0-9a-f-]{36}$/);

  await openTab(page, /^Properties/);
  await page.getByRole("button", { name: "Add property" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("vip");
  await page.getByRole("combobox", { name: "Type" }).click();
  await page.getByRole("option", { name: "Yes or no" }).click();
  await checkPage(page, "person property");
  await page.getByRole("button", { name: "Save" }).click();
  const properties = page.getByRole("tabpanel").getByRole("list");
  await expect(properties.getByRole("listitem").filter({ hasText: "vip" })).toContainText("true");
  await page.getByRole("button", { name: "Edit seats" }).click();
  await page.getByRole("textbox", { name: "Value" }).fill("many");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("This is not a number.")).toBeVisible();
  await page.getByRole("textbox", { name: "Value" }).fill("4");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(properties.getByRole("listitem").filter({ hasText: "seats" })).toContainText("4");
  await page.getByRole("button", { name: "Remove plan" }).click();
  await expect(page.getByRole("button", { name: "Remove plan" })).toHaveCount(0);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("button", { name: "Remove plan" })).toBeVisible();

  await openTab(page, /^Distinct ids/);
  await page.getByRole("checkbox", { name: "Choose ann-anon" }).click();
  await page.getByRole("button", { name: "Split 1 id off" }).click();
  await expect(page.getByRole("dialog")).toContainText("1 new person");
  await checkPage(page, "person split");
  await page.getByRole("button", { name: "Make 1 new person" }).click();
  await expect(page.getByRole("tab", { name: "Distinct ids 1" })).toBeVisible();

  await page.goto(`/project/${project.id}/person/ben`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Merge with another person" }).click();
  await page.getByRole("combobox", { name: /The other person/ }).click();
  await page.getByRole("combobox", { name: /Search the other person/ }).fill("phone");
  await page.getByRole("option", { name: /ben@phone/ }).click();
  const preview = page.getByRole("region", { name: "After the merge" });
  await expect(preview).toContainText("2 distinct ids");
  await expect(preview.getByRole("row", { name: /email/ })).toContainText("ben@example.com");
  await checkPage(page, "person merge");
  await page.getByRole("button", { name: "Merge", exact: true }).click();
  await expect(page.getByRole("tab", { name: /^Properties/ })).toBeVisible();
  await openTab(page, /^Properties/);
  await expect(page.getByRole("button", { name: "Edit shoe" })).toBeVisible();
  await openTab(page, "Activity");
  await expect(page.getByText(/merged/)).toBeVisible();

  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("radio", { name: /The person and all their events/ }).click();
  await checkPage(page, "person delete");
  await page.getByRole("button", { name: "Delete person and events" }).click();
  await expect(page).toHaveURL(/persons$/);
  await expect(row(page, /ben@/)).toHaveCount(0);
});

test("several persons are deleted at once, with their events", async ({ page, admin }) => {
  const project = await furnished(admin, "Persons deleted");
  await page.goto(`/project/${project.id}/persons`);
  for (const name of ["ben@example.com", "ben@phone.example"]) {
    await page.getByRole("checkbox", { name: `Choose ${name}` }).click();
  }
  await checkPage(page, "persons chosen");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Delete 2 persons?" });
  await dialog.getByRole("radio", { name: /The persons and all their events/ }).click();
  await checkPage(page, "persons delete");
  await dialog.getByRole("button", { name: "Delete 2 persons and their events" }).click();
  await expect(page.getByText("1 person.", { exact: true })).toBeVisible();
  await expect(page.getByRole("toolbar", { name: "Chosen persons" })).toHaveCount(0);
  await expect
    .poll(async () => {
      const answer = await admin.get(`/api/projects/${project.id}/events?distinct_id=ben`);
      return ((await answer.json()) as { results: unknown[] }).results.length;
    })
    .toBe(0);
});

test("groups are listed, edited and related", async ({ page, admin }) => {
  const project = await furnished(admin, "Groups");
  await page.goto(`/project/${project.id}/groups`);
  await expect(row(page, /Acme Ltd/)).toBeVisible();
  await checkPage(page, "groups");
  await page.getByRole("button", { name: "New company" }).click();
  await page.getByRole("textbox", { name: "Key" }).fill("bolt");
  await page.getByRole("textbox", { name: "Name" }).fill("Bolt Inc");
  await checkPage(page, "group new");
  await page.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Bolt Inc" })).toBeVisible();

  await page.goto(`/project/${project.id}/groups/0/acme`);
  await page.getByRole("button", { name: "Edit size" }).click();
  await page.getByRole("textbox", { name: "Value" }).fill("41");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("listitem").filter({ hasText: "size" })).toContainText("41");
  await openTab(page, "Persons and groups");
  await expect(page.getByRole("link", { name: "ann@example.com" })).toBeVisible();
  await checkPage(page, "group related");
  await openTab(page, "Timeline");
  await expect(
    page.getByRole("region", { name: "Timeline" }).getByRole("button", { name: /order placed/ }),
  ).toBeVisible();
});
