import { checkPage, expect, settled, test } from "./journey";
import { newProject, sendBatch, waitForEvents } from "./sdks";

const SHOP = [
  ["ann", "pro", 3],
  ["ben", "pro", 1],
  ["cleo", "free", 3],
] as const;

function orders() {
  return SHOP.flatMap(([id, plan, count]) =>
    Array.from({ length: count }, () => ({
      event: "order placed",
      distinct_id: id,
      properties: { $set: { email: `${id}@example.com`, plan } },
    })),
  );
}

test("a cohort is built by conditions, counted while editing, saved, used and deleted", async ({
  page,
  admin,
}) => {
  test.slow();
  const project = await newProject(admin, "Cohorts");
  await sendBatch(admin, project.key, orders());
  await waitForEvents(admin, project, orders().length);
  await page.goto(`/project/${project.id}/cohorts`);
  await expect(page.getByText("No cohorts yet")).toBeVisible();
  await page.getByRole("link", { name: "New cohort" }).first().click();

  await page.getByRole("textbox", { name: "Name" }).fill("Loyal");
  await page.getByRole("combobox", { name: "Add property" }).click();
  await page.getByRole("combobox", { name: /Search person property/ }).fill("plan");
  await page.getByRole("option", { name: "plan" }).click();
  await expect(page.getByText("no value yet")).toBeVisible();
  await page.getByRole("combobox", { name: "Value" }).click();
  await page.getByRole("option", { name: /pro/ }).click();
  await page.keyboard.press("Escape");
  await expect(page.getByText("of 3 persons (66.7%)")).toBeVisible();

  await page.getByRole("combobox", { name: "Add behavior" }).click();
  await page.getByRole("option", { name: /order placed/ }).click();
  await page.getByRole("combobox", { name: "How often" }).click();
  await page.getByRole("option", { name: "at least", exact: true }).click();
  await expect(page.getByText("of 3 persons (33.3%)")).toBeVisible();
  await page.getByRole("textbox", { name: "Times" }).fill("1");
  await expect(page.getByText("of 3 persons (66.7%)")).toBeVisible();
  await page.getByRole("textbox", { name: "Times" }).fill("3");
  await expect(page.getByText("of 3 persons (33.3%)")).toBeVisible();
  await checkPage(page, "cohort new");
  await page.getByRole("combobox", { name: "How the conditions combine" }).click();
  await page.getByRole("option", { name: "Any of these" }).click();
  await expect(page.getByText("of 3 persons (100%)")).toBeVisible();
  await page.reload();
  await expect(page.getByRole("textbox", { name: "Name" })).toHaveValue("Loyal");
  await expect(page.getByText("of 3 persons (100%)")).toBeVisible();
  await page.getByRole("combobox", { name: "How the conditions combine" }).click();
  await page.getByRole("option", { name: "All of these" }).click();
  await page.getByRole("button", { name: "Create cohort" }).click();

  await expect(page.getByRole("heading", { level: 1, name: "Loyal" })).toBeVisible();
  await expect(page.getByRole("link", { name: "ann@example.com" })).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);
  await checkPage(page, "cohort persons");

  await page.getByRole("tab", { name: "Conditions" }).click();
  await page.getByRole("combobox", { name: "Whether it was done" }).click();
  await page.getByRole("option", { name: "did not do" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("tab", { name: "Conditions", exact: true })).toBeVisible();
  await page.getByRole("tab", { name: /^Persons/ }).click();
  await expect(page.getByRole("link", { name: "ben@example.com" })).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);

  const id = Number(/cohorts\/(\d+)/.exec(page.url())?.[1]);
  const made = await admin.post(`/api/projects/${project.id}/cohorts`, {
    data: {
      name: "Others",
      filters: {
        properties: {
          type: "AND",
          values: [{ type: "cohort", key: "id", value: id, negation: true }],
        },
      },
    },
  });
  expect(made.ok(), await made.text()).toBe(true);
  await page.getByRole("tab", { name: "Where used" }).click();
  await expect(page.getByRole("link", { name: "Others" })).toBeVisible();
  await checkPage(page, "cohort used");
  await page.getByRole("link", { name: "Others" }).click();
  await page.getByRole("tab", { name: "Conditions" }).click();
  await expect(page.getByRole("combobox", { name: "Membership" })).toContainText("is not in");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(page.getByText("Deleted “Others”")).toBeVisible();
  await expect(page.getByRole("row", { name: /Others/ })).toHaveCount(0);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("row", { name: /Others/ })).toBeVisible();
  await checkPage(page, "cohorts");
});

test("a static cohort takes a list, a file and single persons", async ({ page, admin }) => {
  const project = await newProject(admin, "Static cohorts");
  await sendBatch(admin, project.key, orders());
  await waitForEvents(admin, project, orders().length);
  await page.goto(`/project/${project.id}/cohorts/new?static=true`);
  await page.getByRole("textbox", { name: "Name" }).fill("Testers");
  await page.getByRole("combobox", { name: "What the list has" }).click();
  await page.getByRole("option", { name: "E-mail addresses" }).click();
  await page.getByRole("textbox", { name: "Persons" }).fill("ann@example.com\nnobody@example.com");
  await expect(page.getByText("2 e-mail addresses.")).toBeVisible();
  await checkPage(page, "cohort static");
  await page.getByRole("button", { name: "Create cohort" }).click();
  await expect(page.getByRole("link", { name: "ann@example.com" })).toBeVisible();
  await expect(page.getByRole("row")).toHaveCount(2);

  await page.getByRole("button", { name: "Upload a list" }).click();
  await page.getByLabel("CSV file").setInputFiles({
    name: "testers.csv",
    mimeType: "text/csv",
    buffer: Buffer.from("distinct_id\nben\n"),
  });
  await checkPage(page, "cohort upload");
  await page.getByRole("dialog").getByRole("button", { name: "Add persons" }).click();
  await expect(page.getByText("Added 1 person")).toBeVisible();
  await expect(page.getByRole("link", { name: "ben@example.com" })).toBeVisible();

  await page.getByRole("combobox", { name: "Add person" }).click();
  await page.getByRole("option", { name: /cleo/ }).click();
  await expect(page.getByRole("link", { name: "cleo@example.com" })).toBeVisible();
  await page.getByRole("button", { name: "Remove ann@example.com" }).click();
  await expect(page.getByRole("link", { name: "ann@example.com" })).toHaveCount(0);

  await page.goto(`/project/${project.id}/person/cleo`);
  await page.getByRole("tab", { name: "Cohorts" }).click();
  await settled(page);
  await page.getByRole("button", { name: "Remove from Testers" }).click();
  await expect(page.getByText("In no cohort")).toBeVisible();
  await page.getByRole("combobox", { name: "Add to a static cohort" }).click();
  await page.getByRole("option", { name: "Testers" }).click();
  await expect(page.getByRole("link", { name: "Testers" })).toBeVisible();
  await settled(page);
  await checkPage(page, "person cohorts");
});
