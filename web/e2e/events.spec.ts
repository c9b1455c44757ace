import { readFile } from "node:fs/promises";
import { checkPage, expect, PROJECT_KEY, test } from "./journey";
import { newProject, sendBatch, sendWithPython, waitForEvents } from "./sdks";

const SHOP = [
  {
    event: "order placed",
    distinct_id: "ann",
    properties: { amount: 12.5, plan: "pro", $set: { email: "ann@example.com", plan: "pro" } },
  },
  { event: "order placed", distinct_id: "ben", properties: { amount: 99, plan: "free" } },
  { event: "searched", distinct_id: "ann", properties: { query: "boots" } },
];

test("events are filtered, shown in chosen columns, opened and downloaded", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Explorer");
  await page.goto(`/project/${project.id}/activity/explore`);
  await expect(page.getByText("No events yet")).toBeVisible();
  await checkPage(page, "events empty");
  await sendWithPython(project.key, SHOP);
  await waitForEvents(admin, project, SHOP.length);
  await page.reload();
  await expect(page.getByRole("row")).toHaveCount(4);
  await checkPage(page, "events");

  await page.getByRole("combobox", { name: /^Event/ }).click();
  await checkPage(page, "events picker");
  await page.getByRole("option", { name: /order placed/ }).click();
  await expect(page.getByRole("row")).toHaveCount(3);
  await expect(page).toHaveURL(/event=order/);

  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("combobox", { name: "Add column" }).click();
  await checkPage(page, "events columns");
  await page.getByRole("combobox", { name: /Search column/ }).fill("amount");
  await page.getByRole("option", { name: "amount" }).click();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("columnheader", { name: "amount" })).toBeVisible();
  await expect(page.getByRole("cell", { name: "12.5" })).toBeVisible();

  await page
    .getByRole("row", { name: /ann@example.com/ })
    .getByRole("button")
    .click();
  const drawer = page.getByRole("dialog", { name: "order placed" });
  await expect(drawer).toBeVisible();
  await expect(page).toHaveURL(/id=/);
  await checkPage(page, "event drawer");
  await drawer.getByRole("tab", { name: "Person" }).click();
  await expect(drawer.getByText("ann@example.com").first()).toBeVisible();
  await drawer.getByRole("button", { name: "Show plan as a column" }).click();
  await drawer.getByRole("tab", { name: "JSON" }).click();
  await expect(drawer.getByRole("region", { name: "The event as JSON" })).toContainText(
    '"amount": 12.5',
  );
  await checkPage(page, "event JSON");
  await drawer.getByRole("tab", { name: "Properties" }).click();
  await drawer.getByRole("button", { name: "Only events where plan is this" }).click();
  await expect(drawer).toBeHidden();
  await expect(page.getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("columnheader", { name: "Person: plan" })).toBeVisible();
  await expect(page.getByRole("cell", { name: "pro", exact: true })).toBeVisible();
  await checkPage(page, "events filtered");

  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page
      .getByRole("button", { name: "CSV" })
      .click()
      .then(() => page.getByRole("menuitem", { name: "Columns of this table" }).click()),
  ]);
  const csv = await readFile(await download.path(), "utf8");
  expect(csv.trim().split(/\r?\n/)).toHaveLength(2);
  expect(csv).toContain("ann@example.com");

  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page.getByRole("row")).toHaveCount(4);
  await page.getByRole("button", { name: "Time, oldest first" }).click();
  await expect(page.getByRole("columnheader", { name: /Time/ })).toHaveAttribute(
    "aria-sort",
    "ascending",
  );
  await page.getByRole("button", { name: "All time" }).click();
  await expect(page.getByRole("textbox", { name: "As text" })).toBeVisible();
  await checkPage(page, "events range");
  await page.getByRole("button", { name: "Last hour" }).click();
  await expect(page).toHaveURL(/after=-1h/);
  await expect(page.getByRole("row")).toHaveCount(4);

  const [yesterday = "", today = ""] = [1, 0].map((days) =>
    new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10),
  );
  await page.getByRole("button", { name: "Range: Last hour" }).click();
  await page.getByLabel("From", { exact: true }).fill(yesterday);
  await page.getByLabel("To", { exact: true }).fill(today);
  await page.getByRole("button", { name: "Apply dates" }).click();
  await expect(page).toHaveURL(new RegExp(`after=${yesterday}&before=`));
  // The last day counts.
  await expect(page.getByRole("row")).toHaveCount(4);
  await page.getByRole("button", { name: /^Range:/ }).click();
  await expect(page.getByLabel("To", { exact: true })).toHaveValue(today);
  await page.getByLabel("From", { exact: true }).fill("2020-01-01");
  await page.getByLabel("To", { exact: true }).fill("2020-01-01");
  await page.getByLabel("To: Time").fill("12:30");
  await page.getByRole("button", { name: "Apply dates" }).click();
  await expect(page).toHaveURL(/before=2020-01-01T12(:|%3A)30/);
  await expect(page.getByRole("row")).toHaveCount(0);
});

test("a link of PostHog's opens the event", async ({ page, admin }) => {
  const uuid = "018dfa00-0000-7000-8000-0000000000aa";
  await sendBatch(admin, PROJECT_KEY, [{ event: "linked to", distinct_id: "d", uuid }]);
  await expect(async () => {
    expect((await admin.get(`/api/projects/1/events/${uuid}`)).ok()).toBe(true);
  }).toPass();
  await page.goto(`/project/1/events/${uuid}/2024-03-01T10:00:00Z`);
  await expect(page.getByRole("dialog", { name: "linked to" })).toBeVisible();
  await page.getByRole("button", { name: "Close" }).click();
  await expect(page).not.toHaveURL(/id=/);
});

test.describe("a link to an event that does not exist", () => {
  test.use({ expectedErrors: /status of 404/ });

  test("says so", async ({ page }) => {
    await page.goto("/project/1/activity/explore?id=018dfa00-0000-7000-8000-00000000dead");
    await expect(page.getByText("This event does not exist (any more)")).toBeVisible();
    await checkPage(page, "event not found");
  });
});

test("a thousand events scroll, page by page", async ({ page, admin }) => {
  const project = await newProject(admin, "Many events");
  const start = Date.parse("2026-01-01T00:00:00Z");
  await sendBatch(
    admin,
    project.key,
    Array.from({ length: 1_000 }, (_, number) => ({
      event: "counted",
      distinct_id: `d${number % 50}`,
      timestamp: new Date(start + number * 1_000).toISOString(),
      properties: { number },
    })),
  );
  await waitForEvents(admin, project, 1_000);
  await page.goto(
    `/project/${project.id}/activity/explore?columns=${encodeURIComponent('["event","properties.number"]')}`,
  );
  const table = page.getByRole("region", { name: "Events" });
  await expect(page.getByRole("cell", { name: "999", exact: true })).toBeVisible({
    timeout: 15_000,
  });
  await expect(async () => {
    await table.evaluate((region) => region.scrollTo({ top: region.scrollHeight }));
    await expect(page.getByText("1,000 events.")).toBeVisible({ timeout: 300 });
  }).toPass({ intervals: [100] });
  await table.evaluate((region) => region.scrollTo({ top: region.scrollHeight }));
  await expect(page.getByRole("cell", { name: "0", exact: true })).toBeVisible();
  expect(await page.getByRole("row").count()).toBeLessThan(80);
  await expect(page.getByRole("columnheader", { name: "Event" })).toBeInViewport();
});

test("live events arrive, pause, and go to the tab that asked last", async ({
  page,
  context,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Live");
  await page.goto(`/project/${project.id}/activity/live`);
  await expect(page.getByRole("status").filter({ hasText: "Live" })).toBeVisible();
  await checkPage(page, "live waiting");
  await sendWithPython(project.key, SHOP);
  await expect(page.getByRole("row")).toHaveCount(4);
  await expect(page.getByText("3 events received")).toBeVisible();
  await checkPage(page, "live");

  await page.getByLabel("Search in these events").fill("boots");
  await expect(page.getByRole("row")).toHaveCount(2);
  await page
    .getByRole("row", { name: /searched/ })
    .getByRole("button")
    .click();
  await expect(page.getByRole("dialog", { name: "searched" })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.getByLabel("Search in these events").fill("");

  await page.getByRole("button", { name: "Pause" }).click();
  await sendBatch(admin, project.key, [{ event: "while paused", distinct_id: "d" }]);
  await waitForEvents(admin, project, SHOP.length + 1);
  await expect(page.getByText("Paused").first()).toBeVisible();
  await page.getByRole("button", { name: "Resume" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Live" })).toBeVisible();
  await sendBatch(admin, project.key, [{ event: "after the pause", distinct_id: "d" }]);
  await expect(page.getByRole("row", { name: /after the pause/ })).toBeVisible();
  await expect(page.getByRole("row", { name: /while paused/ })).toHaveCount(0);

  const other = await context.newPage();
  await other.goto(`/project/${project.id}/activity/live?event=searched`);
  await expect(other.getByRole("status").filter({ hasText: "Live" })).toBeVisible();
  await expect(page.getByText("Another tab follows other events")).toBeVisible();
  await checkPage(page, "live taken over");
  await page.getByRole("button", { name: "Follow here" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Live" })).toBeVisible();
  await expect(other.getByText("Another tab follows other events")).toBeVisible();
});

test("refused events say why, with a sample", async ({ page, admin }) => {
  const project = await newProject(admin, "Refusals");
  await page.goto(`/project/${project.id}/activity/live?tab=refused`);
  await expect(page.getByText("Nothing was refused")).toBeVisible();
  await sendBatch(admin, project.key, [
    { event: "order placed", distinct_id: "ann", uuid: "nonsense" },
    { event: "odd time", distinct_id: "ben", timestamp: "yesterday-ish" },
  ]);
  const refused = page.getByRole("row", { name: /uuid is malformed/ });
  await expect(refused).toContainText("Not stored", { timeout: 15_000 });
  await expect(page.getByRole("row", { name: /timestamp could not be read/ })).toContainText(
    "Stored with changes",
  );
  await checkPage(page, "refused events");
  await refused.getByRole("button").click();
  const drawer = page.getByRole("dialog", { name: "The event's uuid is malformed" });
  await expect(drawer.getByRole("region", { name: "Sample of what was sent" })).toContainText(
    '"event": "order placed"',
  );
  await checkPage(page, "refused event");
});
