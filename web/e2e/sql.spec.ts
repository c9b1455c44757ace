import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { checkPage, checkPresentWidth, expect, test } from "./journey";
import { newProject, sendBatch, type TestProject, waitForEvents } from "./sdks";

const EVENTS = ["ann", "ben", "ann"].map((distinct_id, at) => ({
  event: "order placed",
  distinct_id,
  timestamp: new Date(Date.now() - at * 86_400_000).toISOString(),
  properties: { amount: 10 * (at + 1) },
}));

async function openEditor(page: Page, project: TestProject) {
  await page.goto(`/project/${project.id}/sql`);
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.click();
  return editor;
}

test("SQL is completed, run, charted, saved and put on a dashboard", async ({ page, admin }) => {
  test.slow();
  const project = await newProject(admin, "SQL");
  await sendBatch(admin, project.key, EVENTS);
  await waitForEvents(admin, project, EVENTS.length);
  const editor = await openEditor(page, project);
  await checkPage(page, "sql empty");
  await page.keyboard.type("SELECT toStartOfDay(timestamp) AS day, sum(toFloat(properties.");
  await page.keyboard.type("am");
  await expect(page.getByRole("option", { name: "amount" })).toBeVisible();
  await checkPage(page, "sql completion");
  await page.keyboard.press("Enter");
  await expect(editor).toContainText("properties.amount");
  await page.keyboard.type(
    ")) AS total FROM events WHERE properties.amount >= {variables.least} GROUP BY day ORDER BY day",
  );
  const variables = page.getByRole("region", { name: "Variables" });
  await variables.getByRole("combobox", { name: "Type of least" }).click();
  await page.getByRole("option", { name: "Number" }).click();
  await variables.getByRole("textbox", { name: "Value of least" }).fill("15");
  await editor.click();
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.getByText(/^2 rows in/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Rows" }).getByRole("row")).toHaveCount(3);
  await checkPage(page, "sql table");

  await page.getByRole("tab", { name: "Chart" }).click();
  await expect(page.getByRole("figure", { name: /Result/ })).toBeVisible();
  await page.getByRole("combobox", { name: "Chart" }).click();
  await page.getByRole("option", { name: "Stacked bars" }).click();
  await checkPage(page, "sql chart");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "CSV" }).click(),
  ]);
  expect((await readFile(await download.path(), "utf8")).split("\r\n")[0]).toBe("day,total");

  await page.reload();
  await expect(page.getByRole("textbox", { name: "Value of least" })).toHaveValue("15");
  await page.getByRole("button", { name: "Save as insight" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("Money");
  await page.getByRole("combobox", { name: /Dashboards/ }).click();
  await page.getByRole("option", { name: /New dashboard/ }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Open" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Money" })).toBeVisible();
  await expect(page.getByRole("figure", { name: /Money/ })).toBeVisible();
  await checkPage(page, "sql insight");

  await page.goto(`/project/${project.id}/dashboard`);
  await page.getByRole("link", { name: "My dashboard" }).click();
  await expect(
    page.getByRole("article", { name: "Money" }).getByRole("figure", { name: /Money/ }),
  ).toBeVisible();

  await page.getByRole("link", { name: "Money" }).click();
  await page.getByRole("link", { name: "Edit SQL" }).click();
  await page.getByRole("textbox", { name: "Value of least" }).fill("25");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  await page.getByRole("link", { name: "Back to the insight" }).click();
  await expect(page.getByRole("figure", { name: /Money/ })).toBeVisible();
});

test.describe("a statement with an error", () => {
  test.use({ expectedErrors: /status of 400/ });

  test("is underlined at its place, and a selected part runs", async ({ page, admin }) => {
    const project = await newProject(admin, "Wrong SQL");
    await sendBatch(admin, project.key, EVENTS);
    await waitForEvents(admin, project, EVENTS.length);
    const editor = await openEditor(page, project);
    await page.keyboard.type("SELECT evnt FROM events");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Run" }).click();
    await expect(page.getByRole("alert")).toContainText("Did you mean 'event'?");
    await expect(editor.locator(".cm-lintRange-error")).toHaveText("evnt");
    await checkPage(page, "sql error");
    await editor.locator(".cm-lintRange-error").hover();
    await page.getByRole("button", { name: "Write event" }).click();
    await expect(editor).toHaveText("SELECT event FROM events");
    await page.getByRole("button", { name: "Run" }).click();
    await expect(page.getByText(/^3 rows in/)).toBeVisible();

    await editor.click();
    await page.keyboard.press("ControlOrMeta+End");
    await page.keyboard.type("\nSELECT 41 + 1 AS answer");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Shift+Home");
    await page.getByRole("button", { name: "Run selection" }).click();
    await expect(page.getByRole("cell", { name: "42" })).toBeVisible();
    await page.getByRole("button", { name: "History" }).click();
    await checkPage(page, "sql history");
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /SELECT event/ })
      .click();
    await expect(editor).toHaveText("SELECT event FROM events");
  });
});

test("tables are browsed beside the editor, and in a drawer on a phone", async ({
  page,
  admin,
}) => {
  const project = await newProject(admin, "SQL tables");
  const editor = await openEditor(page, project);
  await page.keyboard.type("SELECT ");
  await page.keyboard.press("Escape");
  const browser = page.getByRole("region", { name: "Table browser" });
  await browser.getByRole("searchbox").fill("timest");
  await browser
    .getByRole("button", { name: /^timestamp datetime/ })
    .first()
    .click();
  await browser.getByRole("searchbox").fill("");
  await browser.getByRole("button", { name: "Columns of persons", exact: true }).click();
  await checkPresentWidth(page, "sql tables");
  await editor.click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type(" FROM");
  await page.keyboard.press("Escape");
  await browser.getByRole("button", { name: /^events/ }).click();
  await page.keyboard.type(" LIMIT 1");
  await expect(editor).toHaveText("SELECT timestamp FROM events LIMIT 1");
  await page.reload();
  const persons = browser.getByRole("button", { name: "Columns of persons", exact: true });
  await expect(persons).toHaveAttribute("aria-expanded", "true");
  await browser.getByRole("button", { name: "Hide tables" }).click();
  await page.reload();
  await expect(page.getByRole("button", { name: "Tables", exact: true })).toHaveAttribute(
    "aria-pressed",
    "false",
  );
  await expect(browser).toHaveCount(0);

  await page.setViewportSize({ width: 375, height: 740 });
  await page.getByRole("button", { name: "Tables", exact: true }).click();
  await checkPresentWidth(page, "sql tables drawer");
  await page
    .getByRole("dialog", { name: "Tables" })
    .getByRole("button", { name: /^events/ })
    .click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(editor).toContainText("events");
});

test("a statement that runs long is cancelled, and typing goes on", async ({ page, admin }) => {
  const project = await newProject(admin, "Slow SQL");
  const editor = await openEditor(page, project);
  await page.route(/\/query$/, async (route) => {
    const { query } = route.request().postDataJSON() as { query: { kind: string } };
    if (query.kind !== "HogQLQuery") await route.continue();
  });
  await page.keyboard.type("SELECT 1");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.getByText("Running")).toBeVisible();
  await editor.click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type(" + 2");
  await expect(editor).toHaveText("SELECT 1 + 2");
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByRole("button", { name: "Run" })).toBeVisible();
});

test("a variable of the project has a default, which a dashboard and a statement change", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "SQL variables");
  await page.goto(`/project/${project.id}/data-management/variables`);
  await page.getByRole("button", { name: "New variable" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New variable" });
  await dialog.getByRole("textbox", { name: "Name" }).fill("Sold in");
  await expect(dialog.getByText("{variables.sold_in}")).toBeVisible();
  await dialog.getByRole("combobox", { name: "Type" }).click();
  await page.getByRole("option", { name: "One of a list" }).click();
  await dialog.getByRole("textbox", { name: "Options" }).fill("Berlin\nParis\nRome");
  await dialog.getByRole("combobox", { name: "Default" }).click();
  await page.getByRole("option", { name: "Berlin" }).click();
  await checkPage(page, "variable new");
  await dialog.getByRole("button", { name: "Create variable" }).click();
  await expect(page.getByRole("row", { name: /Sold in.*sold_in.*Berlin/ })).toBeVisible();
  await checkPage(page, "variables");

  const editor = await openEditor(page, project);
  await page.keyboard.type("SELECT concat({variables.so");
  await page.getByRole("option", { name: "sold_in" }).click();
  await page.keyboard.type("}, {variables.mark})");
  await page.keyboard.press("Escape");
  const variables = page.getByRole("region", { name: "Variables" });
  await variables.getByRole("textbox", { name: "Value of mark" }).fill("!");
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByRole("cell", { name: "Berlin!" })).toBeVisible();
  await variables.getByRole("combobox", { name: "Value of sold_in" }).click();
  await page.getByRole("option", { name: "Paris" }).click();
  await checkPage(page, "sql variable");
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByRole("cell", { name: "Paris!" })).toBeVisible();
  await variables.getByRole("combobox", { name: "Value of sold_in" }).click();
  await page.getByRole("option", { name: "default: Berlin" }).click();

  await variables.getByRole("button", { name: /^Keep mark/ }).click();
  await expect(dialog.getByRole("textbox", { name: "Default" })).toHaveValue("!");
  await dialog.getByRole("button", { name: "Create variable" }).click();
  await expect(variables.getByRole("textbox", { name: "Value of mark" })).toHaveAttribute(
    "placeholder",
    "default: !",
  );
  await expect(editor).toContainText("{variables.mark}");
  await page.getByRole("button", { name: "Save as insight" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("Where");
  await page.getByRole("combobox", { name: /Dashboards/ }).click();
  await page.getByRole("option", { name: /New dashboard/ }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();

  await page.goto(`/project/${project.id}/dashboard`);
  await page.getByRole("link", { name: "My dashboard" }).click();
  const tile = page.getByRole("article", { name: "Where" });
  await expect(tile).toContainText("Berlin!");
  await page.getByRole("button", { name: "Variables", exact: true }).click();
  await page.getByRole("combobox", { name: "Value of sold_in" }).click();
  await page.getByRole("option", { name: "Rome" }).click();
  await expect(tile).toContainText("Rome!");
  await expect(page).toHaveURL(/variables=.*Rome/);
  await checkPage(page, "dashboard variables");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Save as default" }).click();
  await expect(page).not.toHaveURL(/variables=/);
  await expect(tile).toContainText("Rome!");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await expect(tile).toContainText("Berlin!");

  await page.goto(`/project/${project.id}/data-management/variables`);
  await page.getByRole("button", { name: "Actions of mark" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await checkPage(page, "variable delete");
  await page.getByRole("button", { name: "Delete variable" }).click();
  await expect(page.getByRole("row", { name: /mark/ })).toHaveCount(0);
});
