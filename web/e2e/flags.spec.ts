import type { APIRequestContext, Page } from "@playwright/test";
import { checkPage, expect, logIn, settled, test, watch } from "./journey";
import { newProject, sendBatch, type TestProject, waitForEvents } from "./sdks";

const RUN = Date.now();
const PERSONS = 20;
const PRO = 8;

/// A project of twenty persons, eight of them on the plan pro.
async function peopled(admin: APIRequestContext, name: string): Promise<TestProject> {
  const project = await newProject(admin, name);
  const batch = Array.from({ length: PERSONS }, (_, at) => ({
    event: "signed up",
    distinct_id: `p${at}`,
    properties: { $set: { plan: at < PRO ? "pro" : "free" } },
  }));
  await sendBatch(admin, project.key, batch);
  await waitForEvents(admin, project, PERSONS);
  return project;
}

async function addFlag(
  admin: APIRequestContext,
  project: TestProject,
  flag: Record<string, unknown>,
): Promise<number> {
  const answer = await admin.post(`/api/projects/${project.id}/feature_flags`, { data: flag });
  expect(answer.ok(), await answer.text()).toBe(true);
  return ((await answer.json()) as { id: number }).id;
}

interface StoredFlag {
  name: string;
  active: boolean;
  deleted: boolean;
  tags: string[];
  filters: { groups: { rollout_percentage: number; variant?: string | null }[] };
}

async function stored(
  admin: APIRequestContext,
  project: TestProject,
  id: number,
): Promise<StoredFlag> {
  const answer = await admin.get(`/api/projects/${project.id}/feature_flags/${id}`);
  return (await answer.json()) as StoredFlag;
}

/// What an SDK of a person gets.
async function served(
  admin: APIRequestContext,
  project: TestProject,
  person: string,
  key: string,
): Promise<boolean | undefined> {
  const answer = await admin.post("/flags?v=2", {
    data: { api_key: project.key, distinct_id: person },
  });
  const { flags } = (await answer.json()) as { flags: Record<string, { enabled: boolean }> };
  return flags[key]?.enabled;
}

const review = (page: Page) => page.getByRole("dialog", { name: /^Review/ });
const openReview = (page: Page) => page.getByRole("button", { name: "Review and save" }).click();
const condition = (page: Page, number: number) =>
  page.getByRole("listitem", { name: `Condition ${number}`, exact: true });

test("a flag is made in the editor, reviewed, saved and served", async ({ page, admin }) => {
  test.slow();
  const project = await peopled(admin, "Flag made");
  await page.goto(`/project/${project.id}/feature_flags`);
  await page.getByRole("link", { name: "New flag" }).first().click();
  await page.getByLabel("Key", { exact: true }).fill("new checkout");
  await expect(page.getByText("Only letters, digits, - and _")).toBeVisible();
  await page.getByLabel("Key", { exact: true }).fill("new-checkout");
  await expect(condition(page, 1)).toContainText(`${PERSONS} of ${PERSONS} match`);

  await page.getByRole("combobox", { name: "Add filter of condition 1" }).click();
  await page.getByRole("option", { name: /^plan/ }).click();
  await page.getByRole("combobox", { name: "Value" }).click();
  await page.getByRole("option", { name: /^pro/ }).click();
  await page.keyboard.press("Escape");
  await expect(condition(page, 1)).toContainText(`${PRO} of ${PERSONS} match`);
  await page.getByRole("slider", { name: "Rollout of condition 1" }).fill("100");
  await page.getByRole("button", { name: "Add condition" }).click();
  await expect(
    page.getByText(`Together they match ${PERSONS} of ${PERSONS} persons`),
  ).toBeVisible();
  await checkPage(page, "flag editor");
  await page.getByRole("button", { name: "Move, copy or remove condition 2" }).click();
  await checkPage(page, "condition menu");
  await page.getByRole("menuitem", { name: "Move up" }).click();
  await expect(condition(page, 2)).toContainText(`${PRO} of ${PERSONS} match`);

  // The draft lives in the URL.
  await expect(page).toHaveURL(/new-checkout/);
  await page.reload();
  await expect(page.getByLabel("Key", { exact: true })).toHaveValue("new-checkout");

  await openReview(page);
  await expect(review(page)).toContainText("Condition 2: all persons where plan is pro.");
  const changed = review(page).getByRole("row", { name: `${PRO} of ${PERSONS}: false → true` });
  await expect(changed).toBeVisible();
  await checkPage(page, "flag review");
  await changed
    .getByRole("button", { name: /^Why p/ })
    .first()
    .click();
  const why = page.getByRole("dialog", { name: /^Why p/ });
  await expect(why.getByText("plan is pro, wanted: is pro")).toBeVisible();
  await why.getByRole("button", { name: "Back to the review" }).click();
  await review(page).getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("heading", { name: "new-checkout", level: 1 })).toBeVisible();
  await expect(page).toHaveURL(/feature_flags\/\d+$/);
  await expect
    .poll(async () => [
      await served(admin, project, "p1", "new-checkout"),
      await served(admin, project, "p15", "new-checkout"),
    ])
    .toEqual([true, false]);
});

const VARIANTS = {
  key: "page",
  tags: ["growth"],
  filters: {
    groups: [{ properties: [], rollout_percentage: 100, variant: "control" }],
    multivariate: {
      variants: [
        { key: "control", rollout_percentage: 50 },
        { key: "test", rollout_percentage: 50 },
      ],
    },
  },
};

test("a change shows who changes, and is taken back", async ({ page, admin }) => {
  test.slow();
  const project = await peopled(admin, "Flag changed");
  const id = await addFlag(admin, project, VARIANTS);
  const variant = async () => (await stored(admin, project, id)).filters.groups[0]?.variant;
  await page.goto(`/project/${project.id}/feature_flags/${id}`);
  await page.getByRole("combobox", { name: "Variant of condition 1" }).click();
  await page.getByRole("option", { name: "Always test" }).click();
  await expect(page.getByText("Unsaved draft")).toBeVisible();
  await page.keyboard.press("ControlOrMeta+s");
  await expect(review(page)).toContainText(
    "Condition 1: everybody who matches gets test instead of control.",
  );
  const row = review(page).getByRole("row", { name: `${PERSONS} of ${PERSONS}: control → test` });
  await expect(row).toBeVisible();
  await row
    .getByRole("button", { name: /^Why p/ })
    .first()
    .click();
  const why = page.getByRole("dialog", { name: /^Why p/ });
  await expect(why.getByRole("region", { name: "Saved" })).toContainText("control");
  await expect(why.getByRole("region", { name: "With the draft" })).toContainText("test");
  await checkPage(page, "flag review why");
  await why.getByRole("button", { name: "Back to the review" }).click();
  await review(page).getByRole("button", { name: "Save" }).click();
  await expect(review(page)).toBeHidden();
  expect(await variant()).toBe("test");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await expect(page.getByText("Taken back")).toBeVisible();
  expect(await variant()).toBe("control");
  await expect(page.getByText("Unsaved draft")).toBeHidden();

  // Shares that do not sum to 100 are not sent.
  await page.getByRole("textbox", { name: "Share of variant 1, percent" }).fill("60");
  await page.keyboard.press("Tab");
  await expect(page.getByText("The shares sum to 110%, not to 100%.")).toBeVisible();
  await page.getByRole("button", { name: "Distribute" }).click();
  await expect(page.getByText("Sum: 100%")).toBeVisible();
});

test("a remote config is encrypted, and its secret stays out of the URL", async ({
  page,
  admin,
}) => {
  const project = await newProject(admin, "Flag secret");
  await page.goto(`/project/${project.id}/feature_flags/new`);
  await page.getByLabel("Key", { exact: true }).fill("mailer");
  await page.getByText("Remote config", { exact: true }).click();
  await page.getByLabel("Payload").fill('{"token": "hunter2"');
  await expect(page.getByText("This is not valid JSON.")).toBeVisible();
  await page.getByLabel("Payload").fill('{"token": "hunter2"}');
  await page.getByRole("checkbox", { name: /^Encrypt it/ }).click();
  await expect(page).toHaveURL(/mailer/);
  await expect(page).not.toHaveURL(/hunter2/);
  await openReview(page);
  await review(page).getByRole("button", { name: "Create" }).click();
  await expect(page.getByText("Encrypted; only personal API keys read it.")).toBeVisible();
  expect(await page.content()).not.toContain("hunter2");
  const answer = await admin.get(`/api/projects/${project.id}/feature_flags/mailer/remote_config`, {
    params: { token: project.key },
  });
  expect(await answer.text()).toContain("hunter2");
});

test("the list switches, filters and deletes by review", async ({ page, admin }) => {
  test.slow();
  const project = await peopled(admin, "Flags listed");
  const id = await addFlag(admin, project, VARIANTS);
  await addFlag(admin, project, { key: "settings", is_remote_configuration: true });
  await page.goto(`/project/${project.id}/feature_flags`);
  const row = page.getByRole("row", { name: /page/ });
  await expect(row).toContainText("Multivariate");
  await expect(row).toContainText(`${PERSONS}`);
  await settled(page);
  await checkPage(page, "flags");
  await page.getByRole("switch", { name: "page is on" }).click();
  await expect(review(page)).toContainText("The flag is switched off: everybody gets false.");
  await expect(
    review(page).getByRole("row", { name: `${PERSONS} of ${PERSONS}: control → false` }),
  ).toBeVisible();
  expect((await stored(admin, project, id)).active).toBe(true);
  await review(page).getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("switch", { name: "page is on" })).not.toBeChecked();
  expect((await stored(admin, project, id)).active).toBe(false);

  await page.getByRole("combobox", { name: "State" }).click();
  await page.getByRole("option", { name: "Off" }).click();
  await expect(page).toHaveURL(/status=off/);
  await expect(page.getByRole("link", { name: "settings", exact: true })).toBeHidden();
  await page.getByRole("button", { name: "Actions of page" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete page?" });
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No flag matches")).toBeVisible();
  await page.getByText("Deleted", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Undo", exact: true }).first().click();
  await expect(page.getByRole("link", { name: "page", exact: true })).toBeVisible();
});

test("several flags get tags at once, and are copied to other projects", async ({
  page,
  admin,
}) => {
  const project = await newProject(admin, "Flags copied");
  const other = await newProject(admin, `Flags received ${RUN}`);
  const cohort = await admin.post(`/api/projects/${project.id}/cohorts`, {
    data: { name: `Beta testers ${RUN}`, is_static: true },
  });
  const { id: cohortId } = (await cohort.json()) as { id: number };
  const everybody = { groups: [{ properties: [], rollout_percentage: 100 }] };
  const testers = [{ key: "id", type: "cohort", value: cohortId }];
  await addFlag(admin, project, { key: "cart", filters: everybody, active: true });
  await addFlag(admin, other, { key: "cart", filters: everybody, active: true });
  await addFlag(admin, project, {
    key: "beta",
    tags: ["old"],
    filters: { groups: [{ properties: testers, rollout_percentage: 100 }] },
  });
  await page.goto(`/project/${project.id}/feature_flags`);
  const row = (key: string) => page.getByRole("row", { name: new RegExp(`Choose ${key}`) });
  await page.getByRole("checkbox", { name: "Choose beta" }).click();
  await page.getByRole("button", { name: "Choose all 2" }).click();
  await checkPage(page, "flags chosen");
  await page.getByRole("button", { name: "Tags", exact: true }).click();
  const tags = page.getByRole("dialog", { name: "Tags of 2 flags" });
  await tags.getByRole("combobox", { name: "Change" }).click();
  await page.getByRole("option", { name: "Replace all tags" }).click();
  await tags.getByRole("textbox", { name: "Tags" }).fill("autumn,");
  await checkPage(page, "tags of flags");
  await tags.getByRole("button", { name: "Change 2 flags" }).click();
  await expect(row("beta")).toContainText("autumn");
  await expect(row("beta")).not.toContainText("old");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await expect(row("beta")).toContainText("old");
  await expect(row("cart")).not.toContainText("autumn");

  await page.getByRole("checkbox", { name: "Choose beta" }).click();
  await page.getByRole("checkbox", { name: "Choose cart" }).click();
  await page.getByRole("button", { name: "Copy to projects" }).click();
  const dialog = page.getByRole("dialog", { name: "Copy 2 flags to other projects" });
  await expect(dialog.getByText("1 exists", { exact: true })).toBeVisible();
  await dialog.getByRole("checkbox", { name: `Flags received ${RUN}` }).click();
  await checkPage(page, "flags to copy");
  await dialog.getByRole("button", { name: "Copy to 1 project" }).click();
  const outcome = page.getByRole("dialog", { name: "Copy of 2 flags" });
  await expect(outcome).toContainText(`no cohort with the name "Beta testers ${RUN}"`);
  await checkPage(page, "flags copied");
  await outcome.getByRole("link", { name: /^cart/ }).click();
  await expect(page).toHaveURL(new RegExp(`project/${other.id}/feature_flags/`));
  // The copy replaced the flag there and waits for somebody to switch it on.
  await expect(page.getByText("Off", { exact: true })).toBeVisible();

  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Copy to other projects" }).click();
  await expect(page.getByText("exists, on")).toBeVisible();
});

test.describe("with two editors", () => {
  test.use({ expectedErrors: /status of 409/ });

  test("a clash is settled field by field, and reviewed again", async ({ page, admin }) => {
    const project = await peopled(admin, "Flag of two");
    const id = await addFlag(admin, project, VARIANTS);
    await page.goto(`/project/${project.id}/feature_flags/${id}`);
    await page.getByLabel("Description", { exact: true }).fill("Mine");
    await page.getByRole("slider", { name: "Rollout of condition 1" }).fill("30");
    await admin.patch(`/api/projects/${project.id}/feature_flags/${id}`, {
      data: { name: "Theirs", tags: ["theirs"] },
    });
    await openReview(page);
    await review(page).getByRole("button", { name: "Save" }).click();
    const dialog = page.getByRole("dialog", { name: "This flag was changed meanwhile" });
    await expect(dialog.getByRole("group", { name: "Description" })).toContainText("Theirs");
    await expect(dialog.getByRole("group")).toHaveCount(1);
    await checkPage(page, "flag conflict");
    await dialog.getByRole("radio", { name: /^Mine/ }).check();
    await dialog.getByRole("button", { name: "Review the merge" }).click();
    await expect(review(page)).toContainText("Condition 1: rollout 100% → 30%.");
    await review(page).getByRole("button", { name: "Save" }).click();
    await expect(review(page)).toBeHidden();
    const flag = await stored(admin, project, id);
    expect([flag.name, flag.tags, flag.filters.groups[0]?.rollout_percentage]).toEqual([
      "Mine",
      ["theirs"],
      30,
    ]);
  });
});

test("why, usage, history, access and code of a flag", async ({ page, admin }) => {
  test.slow();
  const project = await peopled(admin, "Flag known");
  const id = await addFlag(admin, project, VARIANTS);
  const path = `/api/projects/${project.id}/feature_flags/${id}`;
  await admin.patch(path, { data: { active: false } });
  await sendBatch(admin, project.key, [
    {
      event: "$feature_flag_called",
      distinct_id: "p1",
      properties: { $feature_flag: "page", $feature_flag_response: "control" },
    },
  ]);
  await page.goto(`/project/${project.id}/feature_flags/${id}?tab=why`);
  await page.getByRole("combobox", { name: "Person" }).click();
  await page.getByRole("combobox", { name: "Search person" }).fill("p3");
  await page.getByRole("option", { name: /^p3/ }).first().click();
  await expect(page.getByText("The flag is off")).toBeVisible();
  await expect(page.getByText("Its conditions are not looked at while it is off.")).toBeVisible();
  await checkPage(page, "flag why");

  await page.getByRole("tab", { name: "Usage" }).click();
  await expect(page.getByText("1 call", { exact: true })).toBeVisible();
  await expect(page.getByRole("figure")).toBeVisible();
  await checkPage(page, "flag usage");

  await page.getByRole("tab", { name: "History" }).click();
  await page
    .getByRole("button", { name: /^Details of the change/ })
    .first()
    .click();
  await expect(page).toHaveURL(/entry=/);
  await checkPage(page, "flag history");
  await page.getByRole("button", { name: "Restore this version" }).first().click();
  await expect(review(page)).toContainText("The flag is switched on.");
  await expect(
    review(page).getByRole("row", { name: `${PERSONS} of ${PERSONS}: false → control` }),
  ).toBeVisible();
  await review(page).getByRole("button", { name: "Save" }).click();
  await expect(review(page)).toBeHidden();
  expect((await stored(admin, project, id)).active).toBe(true);

  await page.getByRole("tab", { name: "Access" }).click();
  await page.getByRole("combobox", { name: "Whose access" }).click();
  await page.getByRole("option", { name: "Everybody in the project" }).click();
  await page.getByRole("button", { name: "Add rule" }).click();
  await expect(
    page.getByRole("list", { name: "Access rules" }).getByText("Everybody in the project"),
  ).toBeVisible();
  await checkPage(page, "flag access");
  await page.getByRole("button", { name: "Remove the rule of Everybody in the project" }).click();
  await expect(page.getByText("No rule:")).toBeVisible();

  await page.getByRole("tab", { name: "Code" }).click();
  await expect(page.getByText('posthog.getFeatureFlag("page") === "test"')).toBeVisible();
  await checkPage(page, "flag code");
});

test("a viewer of a flag reads it and is told why nothing changes", async ({
  browser,
  playwright,
  admin,
}) => {
  const project = await peopled(admin, "Flag viewed");
  await addFlag(admin, project, VARIANTS);
  const viewer = {
    email: `fay-${RUN}@example.com`,
    password: "journey-password-4",
    first_name: "Fay",
  };
  const made = await admin.post("/api/organizations/@current/members", { data: viewer });
  const member = (await made.json()) as { id: string };
  await admin.put(`/api/projects/${project.id}/resource_access_controls`, {
    data: { resource: "feature_flag", access_level: "viewer", organization_member: member.id },
  });
  const context = await browser.newContext();
  await context.addCookies(await logIn(playwright.request, process.env.HEDGEROW_URL, viewer));
  const page = await context.newPage();
  const problems = watch(page, /status of 40[34]/);
  await page.goto(`/project/${project.id}/feature_flags`);
  await expect(page.getByRole("switch", { name: "page is on" })).toBeDisabled();
  await page.getByRole("link", { name: "page", exact: true }).click();
  await expect(page.getByText("You can view this but not edit it.")).toBeVisible();
  await expect(page.getByLabel("Key", { exact: true })).toBeDisabled();
  await expect(page.getByRole("slider", { name: "Rollout of condition 1" })).toBeDisabled();
  await expect(page.getByText(`${PERSONS} of ${PERSONS} match`)).toBeVisible();
  await checkPage(page, "flag as a viewer");
  expect(problems).toEqual([]);
  await context.close();
});
