import { checkPage, expect, PROJECT_KEY, test } from "./journey";

test("a dashboard is shared, drawn for strangers, and closed again", async ({
  page,
  admin,
  browser,
}) => {
  test.slow();
  const made = await admin.post("/api/projects/1/dashboards", {
    data: { name: "For everyone", description: "Open to all." },
  });
  const { id } = (await made.json()) as { id: number };
  const series = [{ kind: "EventsNode", event: "shared page view" }];
  await admin.post("/batch", {
    data: {
      api_key: PROJECT_KEY,
      batch: Array.from({ length: 12 }, (_, at) => ({
        event: "shared page view",
        distinct_id: `reader-${at % 5}`,
        timestamp: new Date(Date.now() - at * 43_200_000).toISOString(),
        properties: { $geoip_country_code: at % 2 ? "DE" : "FR" },
      })),
    },
  });
  await admin.post("/api/projects/1/insights", {
    data: {
      name: "Shared views",
      query: {
        kind: "InsightVizNode",
        source: { kind: "TrendsQuery", series, dateRange: { date_from: "-7d" } },
      },
      saved: true,
      dashboards: [id],
    },
  });
  await page.goto(`/project/1/dashboard/${id}`);
  await page.getByRole("button", { name: "Share", exact: true }).click();
  await page.getByRole("switch", { name: "Public link" }).click();
  const link = page.getByRole("textbox", { name: "Link", exact: true });
  await expect(link).toHaveValue(/\/shared\//);
  await checkPage(page, "share");
  await expect(page.getByRole("textbox", { name: "Embed code" })).toHaveValue(/<iframe src=/);
  const path = new URL(await link.inputValue()).pathname;

  const server = process.env.HEDGEROW_SERVER ?? "";
  const stranger = await browser.newContext({ baseURL: server });
  const reader = await stranger.newPage();
  const problems: string[] = [];
  reader.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  reader.on("pageerror", (error) => problems.push(error.message));
  const answer = await reader.goto(path);
  expect(answer?.headers()["content-security-policy"]).toContain("connect-src 'none'");
  await expect(reader.getByRole("heading", { name: "For everyone" })).toBeVisible();
  await expect(reader.getByRole("figure")).toBeVisible();
  await checkPage(reader, "shared dashboard");
  await reader.getByRole("button", { name: "Show Shared views as a table" }).click();
  await expect(reader.getByRole("table", { name: "Shared views" })).toBeVisible();
  expect(problems).toEqual([]);

  const noScript = await browser.newContext({ baseURL: server, javaScriptEnabled: false });
  const plain = await noScript.newPage();
  await plain.goto(path.replace("/shared/", "/embedded/"));
  await expect(plain.getByRole("table")).toBeVisible();

  await page.getByRole("switch", { name: "Public link" }).click();
  await expect(link).toHaveCount(0);
  expect((await reader.goto(path))?.status()).toBe(404);
  await stranger.close();
  await noScript.close();
});
