import { checkPage, expect, test } from "./journey";
import { newProject, sendBatch, sendWithPython, serverUrl, visitWebsite } from "./sdks";

test("each SDK has a snippet with host and key, to copy", async ({ page, admin, context }) => {
  test.slow();
  const project = await newProject(admin, "Snippets");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`/project/${project.id}/onboarding`);
  const origin = new URL(page.url()).origin;
  for (const sdk of ["JavaScript (npm)", "Python", "Node.js", "Rust", "curl", "Web page"]) {
    await page.getByRole("tab", { name: sdk, exact: true }).click();
    const panel = page.getByRole("tabpanel");
    await expect(panel.getByText(project.key)).toBeVisible();
    await expect(panel.getByText(origin).first()).toBeVisible();
  }
  await expect(page).toHaveURL(/sdk=web/);
  await page.getByRole("tabpanel").getByRole("button", { name: "Copy" }).first().click();
  await expect(async () => {
    expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(project.key);
  }).toPass();
  await expect(page.getByRole("button", { name: "Open a demo project" })).toBeVisible();
  await checkPage(page, "onboarding waiting");
});

test("the first event of posthog-js turns the page green and leads to a chart", async ({
  page,
  admin,
  browser,
}) => {
  test.slow();
  const project = await newProject(admin, "First event");
  await page.goto(`/project/${project.id}/onboarding`);
  await expect(page.getByText("Waiting for an event")).toBeVisible();
  const [head, call] = await page.getByRole("tabpanel").locator("pre").allInnerTexts();
  await visitWebsite(
    browser,
    (head ?? "").replaceAll(new URL(page.url()).origin, serverUrl()),
    call ?? "",
  );
  await expect(page.getByText("is here.")).toBeVisible({ timeout: 15_000 });
  await expect(page.getByRole("region", { name: "The event as JSON" })).toContainText(
    '"$lib": "web"',
  );
  await expect(page.getByRole("button", { name: "Open a demo project" })).toHaveCount(0);
  await checkPage(page, "onboarding arrived");
  const chart = page.getByRole("link", { name: /^Chart/ });
  await expect(chart).toHaveAttribute("href", /insights\/new#q=.*TrendsQuery/);
  await chart.click();
  await expect(page).toHaveURL(/insights\/new#q=/);
});

test("an event of posthog-python arrives too", async ({ page, admin }) => {
  const project = await newProject(admin, "Python");
  await page.goto(`/project/${project.id}/onboarding?sdk=python`);
  await expect(page.getByText("Waiting for an event")).toBeVisible();
  await sendWithPython(project.key, [{ event: "signed up", distinct_id: "ann" }]);
  await expect(page.getByText("“signed up” from ann is here.")).toBeVisible({ timeout: 15_000 });
});

test("after twenty seconds the page looks for the reason", async ({ page, admin }) => {
  test.slow();
  const project = await newProject(admin, "Checks");
  await page.clock.install();
  await page.goto(`/project/${project.id}/onboarding`);
  await expect(page.getByText("Waiting for an event")).toBeVisible();
  await expect(page.getByRole("region", { name: "Checks" })).toHaveCount(0);
  await sendBatch(admin, project.key, [{ event: "", distinct_id: "ann" }]);
  await page.clock.fastForward(21_000);
  const checks = page.getByRole("region", { name: "Checks" });
  await expect(checks).toContainText(`The server accepts ${project.key}`);
  await expect(async () => {
    await page.clock.fastForward(6_000);
    await expect(checks).toContainText("The event has no name", { timeout: 1_000 });
  }).toPass();
  await checkPage(page, "onboarding checks");
  await page.clock.resume();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await expect(page.getByText("“test event” from onboarding is here.")).toBeVisible({
    timeout: 15_000,
  });
});
