import { ADMIN, checkPage, checkPresentWidth, expect, preloaded, settled, test } from "./journey";

test.describe("log in", () => {
  test.use({ loggedIn: false, expectedErrors: /status of 40[01]/ });

  test("a wrong password says so, the right one leads to where one wanted to go", async ({
    page,
  }) => {
    await page.goto("/project/1/insights?search=sign");
    await expect(page).toHaveURL(/\/login\?next=/);
    await checkPage(page, "log in");
    await page.getByLabel("E-mail").fill(ADMIN.email);
    await page.getByLabel("Password").fill("not the password");
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page.getByRole("alert")).toBeVisible();
    await page.getByLabel("Password").fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page.getByRole("heading", { name: "Insights", level: 1 })).toBeVisible();
    await expect(page).toHaveURL(/\/project\/1\/insights\?search=sign/);
  });

  test("another site cannot be the page after log-in", async ({ page }) => {
    await page.goto("/login?next=//example.com/");
    await page.getByLabel("E-mail").fill(ADMIN.email);
    await page.getByLabel("Password").fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page).toHaveURL(/\/project\/1\/home/);
  });

  test("a setup link without its token says what is missing", async ({ page }) => {
    await page.goto("/setup");
    await expect(page.getByText("Open the whole link")).toBeVisible();
    await page.goto("/setup#token");
    await page.reload();
    await expect(page.getByLabel("Organization")).toBeVisible();
    await checkPage(page, "setup");
  });
});

test("each screen passes axe", async ({ page, admin }) => {
  test.slow();
  for (let at = 0; at < 3; at++) {
    await admin.post("/api/projects/1/dashboards", { data: { name: `Growth ${at}` } });
    const series = [{ kind: "EventsNode", event: "signed up" }];
    await admin.post("/api/projects/1/insights", {
      data: { name: `Sign-ups ${at}`, query: { kind: "TrendsQuery", series }, tags: ["core"] },
    });
  }
  for (const [path, heading] of [
    ["home", /./],
    ["dashboard", "Dashboards"],
    ["insights", "Insights"],
    ["activity/explore", "Events"],
    ["onboarding", /./],
  ] as const) {
    await page.goto(`/project/1/${path}`);
    await expect(page.getByRole("heading", { name: heading, level: 1 })).toBeVisible();
    await settled(page);
    await checkPage(page, path.replace("/", " "));
  }
});

test("a page that does not exist says so", async ({ page }) => {
  await page.goto("/project/1/nothing-here");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
  await checkPage(page, "not found");
});

test("the palette finds screens and objects by keyboard", async ({ page, admin }) => {
  await admin.post("/api/projects/1/dashboards", { data: { name: "Palette target" } });
  await page.goto("/project/1/home");
  await expect(page.getByRole("navigation", { name: "Main" }).first()).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  const palette = page.getByRole("dialog", { name: "Search and actions" });
  await expect(palette).toBeVisible();
  await checkPage(page, "palette");
  await page.keyboard.type("palette tar");
  await expect(palette.getByRole("option", { name: /Palette target/ })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/project\/1\/dashboard\/\d+/);
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("go to insights");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/project\/1\/insights/);
});

test("the palette opens what is written, before its results have come", async ({ page, admin }) => {
  const names = ["Waiting room", "Waiting list"];
  for (const name of names) await admin.post("/api/projects/1/dashboards", { data: { name } });
  await page.goto("/project/1/home");
  await expect(page.getByRole("navigation", { name: "Main" }).first()).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await expect(page.getByRole("dialog", { name: "Search and actions" })).toBeVisible();
  await page.keyboard.type("waiting");
  const options = page.getByRole("option", { name: /^Waiting/ });
  await expect(options).toHaveCount(2);
  const [first, second] = await options.allTextContents();
  const other = names.find((name) => second?.startsWith(name)) ?? "";
  expect(first).not.toContain(other);
  await page.route(/\/search\?/, () => {});
  await page.keyboard.type(other.slice("waiting".length));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: other })).toBeVisible();
});

test("keys go to screens, and the sheet lists them", async ({ page }) => {
  await page.goto("/project/1/home");
  await expect(page.getByRole("link", { name: "Insights" }).first()).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await expect(page).toHaveURL(/\/project\/1\/dashboard/);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  await checkPage(page, "keys");
});

test("the theme is chosen in the account menu and stays", async ({ page }) => {
  await page.goto("/project/1/home");
  await page.getByRole("button", { name: /Account/ }).click();
  await checkPage(page, "account menu");
  await page.getByRole("menuitem", { name: "Dark" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});

test("the project switcher and the menu on a phone open", async ({ page }) => {
  await page.goto("/project/1/home");
  await page.getByRole("button", { name: /Project:/ }).click();
  await expect(page.getByRole("menuitem", { name: /Default project/ })).toBeVisible();
  await checkPage(page, "project switcher");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 375, height: 740 });
  await page.getByRole("button", { name: "More" }).click();
  await expect(page.getByRole("dialog")).toBeVisible();
  await checkPresentWidth(page, "phone menu");
});

test.describe("an expired session", () => {
  test.use({ expectedErrors: /status of 401/ });

  test("is renewed over the page, and the request goes on", async ({ page, context }) => {
    await page.goto("/project/1/dashboard");
    await expect(page.getByRole("heading", { name: "Dashboards", level: 1 })).toBeVisible();
    await context.clearCookies();
    await page.getByRole("button", { name: "New dashboard" }).first().click();
    await page.getByRole("button", { name: "Create dashboard" }).click();
    const dialog = page.getByRole("dialog", { name: "Log in again" });
    await expect(dialog).toBeVisible();
    await checkPage(page, "log in again");
    await dialog.getByLabel("Password").fill(ADMIN.password);
    await dialog.getByRole("button", { name: "Log in" }).click();
    await expect(page).toHaveURL(/\/project\/1\/dashboard\/\d+/);
  });
});

test.describe("a server that is away", () => {
  test.use({ expectedErrors: /net::ERR/ });

  test("shows a banner; reads go on when it is back", async ({ page }) => {
    await page.goto("/project/1/home");
    await expect(page.getByRole("link", { name: "Dashboards" }).first()).toBeVisible();
    await preloaded(page);
    await page.route(/\/(api|_livez)/, (route) => route.abort("connectionrefused"));
    await page.getByRole("link", { name: "Insights" }).first().click();
    await expect(page.getByText("The server does not answer.")).toBeVisible();
    await checkPage(page, "offline");
    await page.unroute(/\/(api|_livez)/);
    // Unless the page has tried by itself.
    const now = page.getByRole("button", { name: "Try now" });
    await now.click({ timeout: 1_000 }).catch(() => {});
    await expect(page.getByText("The server does not answer.")).toBeHidden();
    await expect(page.getByRole("heading", { name: "Insights", level: 1 })).toBeVisible();
  });
});

test("log-out ends the session", async ({ page, context }) => {
  // Not the session of the other tests.
  await context.request.post("/api/login", { data: ADMIN });
  await page.goto("/project/1/home");
  // What the page still asks after log-out is refused.
  await settled(page);
  await page.getByRole("button", { name: /Account/ }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page).toHaveURL(/\/login/);
  await page.goto("/project/1/home");
  await expect(page).toHaveURL(/\/login/);
});
