import type { Page } from "@playwright/test";
import { checkPage, expect, settled, test } from "./journey";
import { newProject, sendBatch } from "./sdks";

/// Answers about trouble that a test cannot make: a full disk, a record that never fits.
async function pretend(page: Page, path: string, change: (answer: never) => object) {
  await page.route(path, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: change((await answer.json()) as never) });
  });
}

test("staff see what is stored, refused and configured", async ({ page, admin }) => {
  test.slow();
  const project = await newProject(admin, "Operated");
  await sendBatch(admin, project.key, [
    { event: "fine", distinct_id: "ann" },
    { event: "", distinct_id: "ann" },
  ]);
  await page.goto(`/project/${project.id}/home`);
  await page.getByRole("button", { name: /Account/ }).click();
  await page.getByRole("menuitem", { name: "Instance status" }).click();
  await expect(page.getByText(/^Hedgerow \d+\.\d+/)).toBeVisible();
  await expect(page.getByText("The event had no name")).toBeVisible();
  await page.getByRole("button", { name: "The event has no name" }).click();
  await expect(page.getByRole("region", { name: /^Sample/ })).toContainText("distinctId");
  await page.getByRole("searchbox", { name: "Search settings" }).fill("admin_password");
  await expect(page.getByText("(hidden)")).toBeVisible();
  await settled(page);
  await checkPage(page, "instance status");
});

test("a full disk shows above every page, and dead letters are replayed", async ({
  page,
  admin,
}) => {
  const project = await newProject(admin, "In trouble");
  const detail = "The disk is full: 1% is free.";
  await pretend(page, "**/ingestion_status", (answer: object) => ({
    ...answer,
    status: "stopped",
    detail: "Events are not accepted at the moment.",
    problems: [{ code: "disk_low", severity: "critical", detail }],
  }));
  await pretend(page, "**/api/instance_status", (answer: { journal: object }) => ({
    ...answer,
    severity: "critical",
    problems: [{ code: "disk_low", severity: "critical", detail }],
    journal: { ...answer.journal, refusal: "the disk is full" },
    dead_letters: { waiting: 1 },
  }));
  const letter = {
    id: "018dfa00-0000-7000-8000-0000000000bb",
    distinct_id: "ann",
    event: "order placed",
    position: 17,
    reason: "value out of range",
    replayed_at: null as string | null,
    step: "store",
    team_id: project.id,
    timestamp: "2026-03-01T10:00:00Z",
  };
  await pretend(page, "**/dead_letters?*", (answer: object) => ({
    ...answer,
    count: 1,
    results: [letter],
  }));
  await page.route("**/dead_letters/*/replay", async (route) => {
    letter.replayed_at = new Date().toISOString();
    await route.fulfill({ json: letter });
  });
  await page.goto(`/project/${project.id}/insights`);
  const banner = page.getByRole("region", { name: "Trouble of the instance" });
  await expect(banner).toContainText("Events are not accepted at the moment.");
  await checkPage(page, "trouble in the header");
  await banner.getByRole("link", { name: "Instance status" }).click();
  await expect(page.getByRole("list", { name: "Problems" })).toContainText(detail);
  await expect(page.getByText("No: the disk is full")).toBeVisible();
  await checkPage(page, "instance in trouble");
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByText("The record is in the journal again")).toBeVisible();
  await expect(page.getByRole("button", { name: "Replay" })).toHaveCount(0);
});
