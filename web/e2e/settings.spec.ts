import { checkPage, expect, logIn, settled, test, watch } from "./journey";
import { newProject } from "./sdks";

/// New for each run: an account outlives its membership.
const RUN = Date.now();

test("a project is renamed, its settings changed, and deleted by its name", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Settings");
  await page.goto(`/project/${project.id}/settings`);
  await expect(page).toHaveURL(/settings\/project/);
  await settled(page);
  await checkPage(page, "project settings");

  await page.getByRole("textbox", { name: "Name", exact: true }).fill("Settings changed");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("button", { name: "Project: Settings changed" })).toBeVisible();
  await page.getByRole("switch", { name: "Discard IP addresses" }).click();
  await expect(page.getByRole("switch", { name: "Discard IP addresses" })).toBeChecked();

  await page.getByRole("button", { name: "Add pattern" }).click();
  await page.getByRole("textbox", { name: "Pattern 1" }).fill("/order/[");
  await page.getByRole("textbox", { name: "Becomes 1" }).fill("/order/<id>");
  await page.getByRole("textbox", { name: "Pattern 1" }).fill("/order/\\d+");
  await page.getByRole("button", { name: "Save patterns" }).click();
  await expect(page.getByRole("button", { name: "Save patterns" })).toBeHidden();

  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("button", { name: "Create key" }).click();
  const show = page.getByRole("button", { name: "Show the secret key" });
  await show.click();
  await expect(page.getByText(/^phs_\w+$/)).toBeVisible();
  const stored = await admin.get(`/api/projects/${project.id}`);
  expect(await stored.json()).toMatchObject({
    name: "Settings changed",
    anonymize_ips: true,
    path_cleaning_filters: [{ alias: "/order/<id>", regex: "/order/\\d+", order: 0 }],
  });

  await page.getByRole("button", { name: "Delete project" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete this project?" });
  await expect(dialog.getByRole("button", { name: "Delete project" })).toBeDisabled();
  await checkPage(page, "delete project");
  await dialog.getByRole("textbox").fill("Settings changed");
  await dialog.getByRole("button", { name: "Delete project" }).click();
  await expect(page).not.toHaveURL(new RegExp(`project/${project.id}/`));
  expect((await admin.get(`/api/projects/${project.id}`)).status()).toBe(404);
});

test("a personal key is limited, shown once, and ends", async ({ page, admin, playwright }) => {
  const project = await newProject(admin, "Keys");
  await page.goto(`/project/${project.id}/settings/keys`);
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog", { name: "New personal API key" });
  await dialog.getByRole("textbox", { name: "Name" }).fill(`Report ${RUN}`);
  await dialog.getByRole("combobox", { name: "Access" }).click();
  await page.getByRole("option", { name: "Read and change everything" }).click();
  await dialog.getByRole("combobox", { name: "Access" }).click();
  await page.getByRole("option", { name: "Choose for each kind" }).click();
  await checkPage(page, "new key");
  await dialog.getByRole("combobox", { name: "Access to dashboards" }).click();
  await page.getByRole("option", { name: "No access" }).click();
  await dialog.getByRole("button", { name: "Create key" }).click();
  const shown = page.getByRole("dialog", { name: `The value of “Report ${RUN}”` });
  const value = (await shown.locator("code").textContent()) ?? "";
  expect(value).toMatch(/^phx_/);
  await checkPage(page, "key shown once");
  const program = await playwright.request.newContext({
    baseURL: process.env.HEDGEROW_SERVER ?? process.env.HEDGEROW_URL,
    extraHTTPHeaders: { Authorization: `Bearer ${value}` },
  });
  const base = `/api/projects/${project.id}`;
  expect((await program.get(`${base}/insights`)).status()).toBe(200);
  expect((await program.get(`${base}/dashboards`)).status()).toBe(403);
  await shown.getByRole("button", { name: "I have copied it" }).click();
  await expect(page.getByText(value)).toHaveCount(0);

  await page.getByRole("button", { name: `Actions of Report ${RUN}` }).click();
  await page.getByRole("menuitem", { name: /^Roll/ }).click();
  await page.getByRole("button", { name: "Roll key" }).click();
  await expect(shown).toBeVisible();
  expect((await program.get(`${base}/insights`)).status()).toBe(401);
  await shown.getByRole("button", { name: "I have copied it" }).click();
  await page.getByRole("button", { name: `Actions of Report ${RUN}` }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete key" }).click();
  await expect(page.getByText(`Report ${RUN}`)).toHaveCount(0);
  await program.dispose();
});

test("a member joins by a setup link, gets a role and rules, and edits only their account", async ({
  page,
  admin,
  browser,
  playwright,
}) => {
  test.slow();
  const project = await newProject(admin, "Joined");
  const email = `mia-${RUN}@example.com`;
  const settings = `/project/${project.id}/settings`;
  await page.goto(`${settings}/members`);
  await expect(page.getByRole("table", { name: "Members" })).toBeVisible();
  await checkPage(page, "members");
  await page.getByRole("button", { name: "Add member" }).click();
  const adding = page.getByRole("dialog", { name: "Add member" });
  await adding.getByRole("textbox", { name: "E-mail" }).fill(email);
  await adding.getByRole("textbox", { name: "First name" }).fill("Mia");
  await adding.getByRole("button", { name: "Add member" }).click();
  const linked = page.getByRole("dialog", { name: "Setup link of Mia" });
  await linked.getByRole("button", { name: "Copy the link" }).waitFor();
  await checkPage(page, "setup link");
  const link = (await linked.locator("code").textContent()) ?? "";
  await linked.getByRole("button", { name: "I have copied it" }).click();

  await page.goto(`${settings}/roles`);
  await page.getByRole("button", { name: "New role" }).first().click();
  await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill(`Help ${RUN}`);
  await page.getByRole("button", { name: "Create role" }).click();
  await page.getByRole("combobox", { name: `Add to Help ${RUN}` }).click();
  await page.getByRole("combobox", { name: /Search/ }).fill("mia");
  await page.getByRole("option", { name: new RegExp(email) }).click();
  await expect(
    page.getByRole("list", { name: `Members of Help ${RUN}` }).getByText("Mia"),
  ).toBeVisible();
  await checkPage(page, "roles");

  await page.goto(`${settings}/access`);
  await page.getByRole("combobox", { name: "Add a role or member for dashboards" }).click();
  await page.getByRole("option", { name: `Help ${RUN}` }).click();
  const level = page.getByRole("combobox", { name: `Level of Role Help ${RUN} for dashboards` });
  await expect(level).toHaveText("View");
  await settled(page);
  await checkPage(page, "access");
  const rules = await admin.get(`/api/projects/${project.id}/resource_access_controls`);
  expect(JSON.stringify(await rules.json())).toContain('"access_level":"viewer"');

  const context = await browser.newContext();
  const own = await context.newPage();
  const problems = watch(own, /status of 40[134]/);
  await own.goto(link);
  await own.getByLabel("Password").fill("journey-password-7");
  await own.getByRole("button", { name: "Save and log in" }).click();
  await expect(own).toHaveURL(/\/home/);
  await own.goto(`${settings}/members`);
  await expect(own.getByText("Only administrators of the organization")).toBeVisible();
  await expect(own.getByRole("button", { name: "Add member" })).toBeDisabled();
  await checkPage(own, "members as a member");
  await own.goto(`${settings}/project`);
  await expect(own.getByRole("button", { name: "Delete project" })).toBeDisabled();
  await own.goto(`/project/${project.id}/instance/status`);
  await expect(own.getByRole("heading", { name: "Not found" })).toBeVisible();

  await own.goto(`${settings}/account`);
  await own.getByRole("textbox", { name: "Last name" }).fill("Moss");
  await own.getByRole("button", { name: "Save name" }).click();
  await own.getByLabel("Current password").fill("wrong password");
  await own.getByLabel("New password").fill("journey-password-8");
  await own.getByRole("button", { name: "Change password" }).click();
  await expect(own.getByText("Your current password is incorrect.")).toBeVisible();
  await checkPage(own, "account");
  await own.getByLabel("Current password").fill("journey-password-7");
  await own.getByRole("button", { name: "Change password" }).click();
  await expect(own.getByText("The password is changed")).toBeVisible();
  await logIn(playwright.request, process.env.HEDGEROW_URL, {
    email,
    password: "journey-password-8",
  });
  expect(problems.filter((one) => !one.includes("status of 400"))).toEqual([]);
  await context.close();

  await page.goto(`${settings}/members`);
  await page.getByRole("searchbox").fill(email);
  await page.getByRole("button", { name: "Actions of Mia Moss" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await page.getByRole("button", { name: "Remove member" }).click();
  await expect(page.getByText(email)).toHaveCount(0);
});

test("the organization lists its projects, and an insight gets a note and a public link", async ({
  page,
  admin,
}) => {
  const project = await newProject(admin, `Listed ${RUN}`);
  await page.goto(`/project/${project.id}/settings/organization`);
  await expect(
    page.getByRole("list", { name: "Projects" }).getByRole("link", { name: `Listed ${RUN}` }),
  ).toBeVisible();
  await checkPage(page, "organization");
  const made = await admin.post(`/api/projects/${project.id}/insights`, {
    data: {
      name: "Shared one",
      saved: true,
      query: {
        kind: "InsightVizNode",
        source: { kind: "TrendsQuery", series: [{ kind: "EventsNode", event: "signed up" }] },
      },
    },
  });
  const { short_id } = (await made.json()) as { short_id: string };
  await page.goto(`/project/${project.id}/insights/${short_id}`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Add annotation" }).click();
  const note = page.getByRole("dialog", { name: "New annotation" });
  await note.getByRole("textbox", { name: "Text" }).fill("Campaign");
  await note.getByRole("button", { name: "Add annotation" }).click();
  await expect(note).toBeHidden();
  const notes = await admin.get(`/api/projects/${project.id}/annotations`);
  expect(await notes.json()).toMatchObject({
    results: [{ content: "Campaign", scope: "dashboard_item", insight_short_id: short_id }],
  });
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Share" }).click();
  const dialog = page.getByRole("dialog", { name: "Share this insight" });
  await dialog.getByRole("switch", { name: "Public link" }).click();
  await expect(dialog.getByRole("textbox", { name: "Link" })).toHaveValue(/\/shared\/[\w-]+$/);
  await checkPage(page, "share insight");
});
