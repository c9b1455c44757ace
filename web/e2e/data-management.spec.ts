import { checkPage, expect, settled, test } from "./journey";
import { newProject, sendBatch, waitForEvents } from "./sdks";

test("an event is described, verified and hidden; a property gets a type", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Definitions");
  await sendBatch(admin, project.key, [
    { event: "order placed", distinct_id: "ann", properties: { amount: "12" } },
    { event: "searched", distinct_id: "ann" },
  ]);
  await waitForEvents(admin, project, 2);
  await page.goto(`/project/${project.id}/data-management`);
  await expect(page.getByRole("row")).toHaveCount(3);
  await checkPage(page, "event definitions");
  await page.getByRole("searchbox", { name: "Search events" }).fill("order");
  await expect(page).toHaveURL(/search=order/);
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.getByRole("button", { name: "order placed" }).click();
  const drawer = page.getByRole("dialog", { name: "order placed" });
  await drawer.getByRole("textbox", { name: "Description" }).fill("Paid at the checkout");
  await drawer.getByRole("button", { name: "Save description" }).click();
  await expect(drawer.getByRole("button", { name: "Save description" })).toBeHidden();
  await drawer.getByRole("switch", { name: /^Verified/ }).click();
  await expect(drawer.getByRole("switch", { name: /^Verified/ })).toBeChecked();
  await expect(drawer.getByRole("link", { name: "amount" })).toBeVisible();
  await settled(page);
  await checkPage(page, "event definition");
  await drawer.getByRole("switch", { name: /^Hidden/ }).click();
  await expect(drawer.getByRole("switch", { name: /^Hidden/ })).toBeChecked();
  await drawer.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("No event matches")).toBeVisible();
  await page.getByRole("checkbox", { name: "Show hidden" }).click();
  await expect(page.getByRole("row", { name: /Hidden/ })).toContainText("Paid at the checkout");

  await page.getByRole("link", { name: "Properties" }).click();
  await page.getByRole("button", { name: "amount" }).click();
  const property = page.getByRole("dialog", { name: "amount" });
  await property.getByRole("combobox", { name: "Type" }).click();
  await page.getByRole("option", { name: "Number" }).click();
  await expect(property.getByRole("combobox", { name: "Type" })).toHaveText("Number");
  await checkPage(page, "property definition");
  await property.getByRole("button", { name: "Close" }).click();
  await expect(page.getByRole("row", { name: /amount/ })).toContainText("Number");
});

test("an action shows matching events while it is edited, and its deletion is taken back", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Actions");
  const visit = (distinct_id: string, path: string) =>
    sendBatch(admin, project.key, [
      {
        event: "$pageview",
        distinct_id,
        properties: { $current_url: `https://shop.example.com${path}` },
      },
    ]);
  await visit("ann", "/checkout");
  await visit("ben", "/about");
  await waitForEvents(admin, project, 2);
  await page.goto(`/project/${project.id}/data-management/actions`);
  await expect(page.getByText("No actions yet")).toBeVisible();
  await page.getByRole("link", { name: "New action" }).first().click();
  await page.getByRole("textbox", { name: "Name" }).fill("Saw the checkout");
  const matching = page.getByRole("table", { name: "Matching events" });
  await expect(matching.getByRole("row")).toHaveCount(3);
  await page.getByRole("button", { name: "Condition" }).click();
  await page.getByRole("menuitem", { name: "URL" }).click();
  await page.getByRole("textbox", { name: "URL" }).fill("/checkout");
  await expect(matching.getByRole("row")).toHaveCount(2);
  await expect(matching.getByRole("cell", { name: "ann" })).toBeVisible();
  await checkPage(page, "new action");
  await page.getByRole("button", { name: "Create action" }).click();
  await expect(page).toHaveURL(/actions\/\d+$/);
  await visit("cleo", "/checkout/pay");
  await expect(matching.getByRole("cell", { name: "cleo" })).toBeVisible();
  await settled(page);
  await checkPage(page, "action");

  await page.getByRole("textbox", { name: "Description" }).fill("From any page");
  await page.reload();
  await expect(page.getByRole("textbox", { name: "Description" })).toHaveValue("From any page");
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByRole("button", { name: "Saved" })).toBeVisible();

  await page.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No actions yet")).toBeVisible();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("link", { name: "Saw the checkout" })).toBeVisible();
  await checkPage(page, "actions");
});

test("annotations come and go, and the log tells it with what was before", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Annotations");
  await page.goto(`/project/${project.id}/data-management/annotations`);
  await page.getByRole("button", { name: "New annotation" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Text" }).fill("Version 2 is live");
  await dialog.getByLabel("Date and time").fill("2026-03-01T10:00");
  await checkPage(page, "new annotation");
  await dialog.getByRole("button", { name: "Add annotation" }).click();
  await page.getByRole("button", { name: "Version 2 is live", exact: true }).click();
  await dialog.getByRole("textbox", { name: "Text" }).fill("Version 2.1 is live");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(
    page.getByRole("button", { name: "Version 2.1 is live", exact: true }),
  ).toBeVisible();
  await checkPage(page, "annotations");
  await page.getByRole("button", { name: "Actions of Version 2.1 is live" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(page.getByText("No annotations yet")).toBeVisible();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(
    page.getByRole("button", { name: "Version 2.1 is live", exact: true }),
  ).toBeVisible();
  const listed = await admin.get(`/api/projects/${project.id}/annotations`);
  const { results } = (await listed.json()) as { results: { date_marker: string }[] };
  expect(results[0]?.date_marker).toMatch(/^2026-03-01T10:00:00/);

  await page.goto(`/project/${project.id}/activity-log?scope=Annotation`);
  await expect(page.getByText(/restored annotation/)).toBeVisible();
  const changed = page.getByRole("listitem").filter({ hasText: "changed the text of annotation" });
  await changed.getByRole("button", { name: /^Changes of/ }).click();
  await expect(changed.locator("del")).toHaveText("Version 2 is live");
  await expect(changed.locator("ins")).toHaveText("Version 2.1 is live");
  await checkPage(page, "activity log");
  await changed.getByRole("link", { name: /history of this annotation/ }).click();
  await expect(page).toHaveURL(/item=/);
  await expect(changed.locator("del")).toBeVisible();
  await page.getByRole("button", { name: "Show all objects" }).click();
  await expect(page).not.toHaveURL(/item=/);
});
