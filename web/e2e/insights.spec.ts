import type { APIRequestContext, Page } from "@playwright/test";
import { checkPage, checkPresentWidth, expect, PROJECT_KEY, test } from "./journey";

const DAY_MS = 86_400_000;

interface Sent {
  /// The same in each run of a worker: what comes twice is counted once.
  uuid: string;
  event: string;
  distinct_id: string;
  timestamp: string;
  properties: Record<string, unknown>;
}

/// Forty persons over ten days who view, sign up, and pay, some of them.
function history(): Sent[] {
  const sent: Sent[] = [];
  const now = Date.now();
  for (let person = 0; person < 40; person++) {
    const id = `builder-${person}`;
    const began = now - (1 + (person % 10)) * DAY_MS;
    const send = (event: string, minutes: number, properties: Record<string, unknown> = {}) =>
      sent.push({
        uuid: `0b51d3a0-0000-4000-8000-${String(sent.length).padStart(12, "0")}`,
        event,
        distinct_id: id,
        timestamp: new Date(began + minutes * 60_000).toISOString(),
        properties: {
          $browser: person % 3 === 0 ? "Safari" : "Chrome",
          $groups: { company: person % 2 ? "acme" : "globex" },
          ...properties,
        },
      });
    send("$pageview", 0, { $current_url: "https://h.example/", $pathname: "/" });
    send("$pageview", 1, { $current_url: "https://h.example/pricing", $pathname: "/pricing" });
    if (person % 2 === 0) send("signed up", 3, { $set: { email: `p${person}@mail.example` } });
    if (person % 4 === 0) send("paid", 30, { amount: 10 + person });
    if (person % 5 === 0) send("$pageview", 1_500, { $current_url: "https://h.example/app" });
  }
  return sent;
}

async function query(admin: APIRequestContext, body: object) {
  const answer = await admin.post("/api/projects/1/query", { data: { query: body } });
  return (await answer.json()) as { results: [number][] };
}

test.beforeAll(async ({ playwright }) => {
  const admin = await playwright.request.newContext({
    baseURL: process.env.HEDGEROW_SERVER ?? process.env.HEDGEROW_URL,
    extraHTTPHeaders: {
      Authorization: `Bearer ${process.env.HEDGEROW_PERSONAL_KEY ?? "phx_journey"}`,
    },
  });
  const hogql = "select count() from events where distinct_id like 'builder-%'";
  const stored = async () =>
    (await query(admin, { kind: "HogQLQuery", query: hogql })).results[0]?.[0] ?? 0;
  if ((await stored()) === 0) {
    await admin.post("/batch/", { data: { api_key: PROJECT_KEY, batch: history() } });
    // The cache keeps SQL answers for a minute: each attempt asks something new.
    let attempt = 0;
    await expect
      .poll(async () => {
        const text = `${hogql} and ${++attempt} > 0`;
        return (await query(admin, { kind: "HogQLQuery", query: text })).results[0]?.[0] ?? 0;
      })
      .toBeGreaterThan(100);
  }
  await admin.dispose();
});

const SERIES = [{ kind: "EventsNode", event: "$pageview" }];

function link(body: object): string {
  return `/project/1/insights/new#q=${encodeURIComponent(JSON.stringify(body))}`;
}

async function ready(page: Page): Promise<void> {
  await expect(
    page.getByRole("region", { name: "Query" }).getByRole("heading").first(),
  ).toBeVisible();
  await expect(page.getByRole("button", { name: /^Range:/ })).toBeVisible();
}

test("a new insight is asked, drawn, saved and found again", async ({ page }) => {
  test.slow();
  await page.goto("/project/1/insights/new");
  await ready(page);
  await expect(page.getByRole("application", { name: /Page view/ })).toBeVisible();
  await checkPage(page, "builder trends");

  await page.getByRole("combobox", { name: "Add series" }).click();
  await page.getByRole("combobox", { name: "Search add series" }).fill("signed");
  await page.getByRole("option", { name: /signed up/ }).click();
  await expect(page.getByRole("button", { name: "signed up", exact: true })).toBeVisible();
  await expect(page).toHaveURL(/#q=.*signed/);

  await page
    .getByRole("combobox", { name: /^How it counts/ })
    .last()
    .click();
  await checkPage(page, "builder math");
  await page.getByRole("option", { name: "Unique persons" }).click();
  await expect(page.getByRole("button", { name: "signed up (unique persons)" })).toBeVisible();

  await page.getByRole("combobox", { name: "Add filter" }).first().click();
  await checkPage(page, "builder properties");
  await page
    .getByRole("option", { name: /^Browser/ })
    .first()
    .click();
  await page.getByRole("combobox", { name: "Value" }).click();
  await page.getByRole("option", { name: "Chrome" }).click();
  await page.keyboard.press("Escape");
  await expect(page).toHaveURL(/Chrome/);

  await page.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: "Save insight" });
  await dialog.getByLabel("Name").fill("Visits and sign-ups");
  await dialog.getByRole("combobox", { name: "Dashboards" }).click();
  await page.getByPlaceholder("Search", { exact: true }).fill("Journey start");
  await page.getByRole("option", { name: "New dashboard “Journey start”" }).click();
  await page.keyboard.press("Escape");
  await checkPage(page, "builder save");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { name: "Visits and sign-ups", level: 1 })).toBeVisible();
  await expect(page).not.toHaveURL(/#q=/);

  await page.goto("/project/1/insights?search=Visits");
  await expect(page.getByRole("link", { name: "Visits and sign-ups" })).toBeVisible();
  await page.goto("/project/1/dashboard?search=Journey+start");
  await page.getByRole("link", { name: "Journey start" }).click();
  await expect(page.getByRole("article", { name: "Visits and sign-ups" })).toBeVisible();
});

test("edits replace the URL, undo goes back, Back leaves", async ({ page }) => {
  await page.goto("/project/1/insights");
  await expect(page.getByRole("heading", { name: "Insights", level: 1 })).toBeVisible();
  await page.getByRole("link", { name: "New insight" }).first().click();
  await ready(page);
  await page.getByRole("button", { name: /^Range:/ }).click();
  const text = page.getByRole("textbox", { name: "As text" });
  await expect(text).toBeVisible();
  await checkPage(page, "builder range");
  await text.fill("14d");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Range: Last 14 days" })).toBeVisible();
  await expect(page).toHaveURL(/-14d/);
  await page.reload();
  await expect(page.getByRole("button", { name: "Range: Last 14 days" })).toBeVisible();
  await page.getByRole("button", { name: "Funnel" }).click();
  await expect(page.getByText("A funnel needs a second step")).toBeVisible();
  await page.keyboard.press("Control+z");
  await expect(page.getByRole("button", { name: "Trends" })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  await page.goBack();
  await expect(page.getByRole("heading", { name: "Insights", level: 1 })).toBeVisible();
});

const KINDS = [
  [
    "funnel",
    {
      kind: "FunnelsQuery",
      series: [...SERIES, { kind: "EventsNode", event: "signed up" }],
      dateRange: { date_from: "-14d" },
      funnelsFilter: { funnelWindowInterval: 3, funnelWindowIntervalUnit: "day" },
    },
    /went through all 2 steps/,
  ],
  [
    "compared funnel",
    {
      kind: "FunnelsQuery",
      series: [
        ...SERIES,
        { kind: "EventsNode", event: "signed up", optionalInFunnel: true },
        { kind: "EventsNode", event: "paid" },
      ],
      compareFilter: { compare: true },
      dateRange: { date_from: "-5d" },
    },
    /went through all required steps/,
  ],
  [
    "retention",
    {
      kind: "RetentionQuery",
      retentionFilter: { targetEntity: { id: "$pageview", type: "events" }, totalIntervals: 11 },
    },
    /cohorts with/,
  ],
  [
    "retention brackets",
    {
      kind: "RetentionQuery",
      retentionFilter: {
        targetEntity: { id: "$pageview", type: "events" },
        retentionCustomBrackets: [1, 2, 4],
      },
    },
    /cohorts with/,
  ],
  [
    "retention amounts",
    {
      kind: "RetentionQuery",
      retentionFilter: {
        targetEntity: { id: "paid", type: "events" },
        returningEntity: { id: "paid", type: "events" },
        aggregationType: "sum",
        aggregationProperty: "amount",
      },
    },
    /cohorts with/,
  ],
  [
    "lifecycle",
    { kind: "LifecycleQuery", series: SERIES, dateRange: { date_from: "-14d" } },
    /New/,
  ],
  [
    "stickiness",
    { kind: "StickinessQuery", series: SERIES, dateRange: { date_from: "-14d" } },
    /in all/,
  ],
  [
    "paths",
    {
      kind: "PathsQuery",
      pathsFilter: { includeEventTypes: ["$pageview"] },
      dateRange: { date_from: "-14d" },
    },
    /The commonest leads from/,
  ],
] as const;

for (const [name, body, summary] of KINDS) {
  test(`${name} is drawn, as a table too, and passes axe`, async ({ page }) => {
    test.slow();
    await page.goto(link(body));
    await ready(page);
    await expect(page.getByRole("figure").getByText(summary).first()).toBeAttached();
    await checkPage(page, `builder ${name}`);
    await page.getByRole("tab", { name: "Table" }).click();
    await expect(page.getByRole("figure").getByRole("table")).toBeVisible();
    await page.getByRole("tab", { name: "API" }).click();
    await expect(page.getByText(`"kind": "${body.kind}"`)).toBeVisible();
  });
}

test("a number is explained by its persons, and they become a cohort", async ({ page }) => {
  test.slow();
  await page.goto(
    link({
      kind: "TrendsQuery",
      series: [{ kind: "EventsNode", event: "paid", math: "sum", math_property: "amount" }],
      dateRange: { date_from: "-14d" },
      trendsFilter: { display: "BoldNumber" },
    }),
  );
  await ready(page);
  await page.getByRole("figure").getByRole("button").click();
  const drawer = page.getByRole("dialog", { name: /paid/ });
  await expect(drawer.getByRole("button", { name: "p0@mail.example" })).toBeVisible();
  await expect(page).toHaveURL(/open=/);
  await checkPage(page, "explain");
  await drawer.getByRole("tab", { name: "Events" }).click();
  const counted = drawer.getByRole("table", { name: "Counted events" });
  await expect(counted.getByRole("button", { name: "paid", exact: true })).toHaveCount(10);
  await expect(counted.getByRole("button")).toHaveCount(10);
  await checkPage(page, "explain events");
  await drawer.getByRole("tab", { name: "API" }).click();
  await expect(drawer.getByText("ActorsQuery").first()).toBeVisible();
  await drawer.getByRole("button", { name: "Save as cohort" }).click();
  await page.getByLabel("Name").fill("Payers of the journey");
  await checkPage(page, "explain cohort");
  await page.getByRole("button", { name: "Save cohort" }).click();
  await expect(page.getByText("Saved as cohort")).toBeVisible();
});

test.describe("with two editors", () => {
  test.use({ expectedErrors: /status of 409/ });

  test("a changed insight is not overwritten unawares", async ({ page, admin }) => {
    test.slow();
    const source = { kind: "TrendsQuery", series: SERIES, dateRange: { date_from: "-7d" } };
    const created = await admin.post("/api/projects/1/insights", {
      data: { name: "Edited by two", query: { kind: "InsightVizNode", source } },
    });
    const { short_id: id } = (await created.json()) as { short_id: string };
    const theirs = (name: string) =>
      admin.patch(`/api/projects/1/insights/${id}`, { data: { name } });
    const stored = async () =>
      JSON.stringify(await (await admin.get(`/api/projects/1/insights/${id}`)).json());
    const draft = { ...source, interval: "week" };
    await page.goto(`/project/1/insights/${id}#q=${encodeURIComponent(JSON.stringify(draft))}`);
    await ready(page);
    await theirs("Renamed meanwhile");
    const save = page.getByRole("button", { name: "Save", exact: true });
    await save.click();
    const dialog = page.getByRole("dialog", { name: "This insight was changed meanwhile" });
    await expect(dialog.getByText("Admin", { exact: true })).toBeVisible();
    await checkPage(page, "conflict");
    await dialog.getByRole("button", { name: "Keep editing" }).click();
    await expect(dialog).toBeHidden();
    expect(await stored()).not.toContain("week");
    await expect(page).toHaveURL(/week/);

    await save.click();
    await dialog.getByRole("button", { name: "Save mine over it" }).click();
    await expect(page.getByText("Saved", { exact: true }).first()).toBeVisible();
    await expect.poll(stored).toContain("week");
    expect(await stored()).toContain("Renamed meanwhile");

    await page.goto(
      `/project/1/insights/${id}#q=${encodeURIComponent(JSON.stringify({ ...source, interval: "hour" }))}`,
    );
    await page.reload();
    await ready(page);
    await theirs("Renamed again");
    await save.click();
    await dialog.getByRole("button", { name: "Load theirs" }).click();
    await expect(page.getByRole("heading", { name: "Renamed again" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Saved" })).toBeDisabled();
    expect(await stored()).not.toContain("hour");
  });
});

test("a formula is an option that can be added", async ({ page }) => {
  await page.goto(link({ kind: "TrendsQuery", series: SERIES, dateRange: { date_from: "-7d" } }));
  await ready(page);
  await page.getByRole("button", { name: "Add option" }).click();
  await checkPage(page, "builder options");
  await page.getByRole("menuitem", { name: "Formula" }).click();
  await page.getByRole("textbox", { name: "Formula 1", exact: true }).fill("A * 2");
  await expect(page.getByRole("application", { name: /A \* 2/ })).toBeVisible();
});

test.describe("with a refused query", () => {
  test.use({ expectedErrors: /status of 400/ });

  test("the error stands at its field and the draft stays", async ({ page }) => {
    await page.goto(
      link({
        kind: "TrendsQuery",
        series: SERIES,
        trendsFilter: { formulaNodes: [{ formula: "A+" }] },
      }),
    );
    await ready(page);
    await expect(
      page.getByRole("alert").filter({ hasText: "ends too early" }).first(),
    ).toBeVisible();
    await checkPage(page, "builder refused");
    await page.getByRole("textbox", { name: "Formula 1", exact: true }).fill("A+A");
    await expect(page.getByRole("application")).toBeVisible();
  });
});

test("a saved insight: draft beats it, discard, details, delete and undo", async ({
  page,
  admin,
}) => {
  test.slow();
  const created = await admin.post("/api/projects/1/insights", {
    data: {
      name: "Pages of the journey",
      saved: true,
      query: { kind: "InsightVizNode", source: { kind: "TrendsQuery", series: SERIES } },
    },
  });
  const { short_id: id } = (await created.json()) as { short_id: string };
  const draft = { kind: "TrendsQuery", series: SERIES, dateRange: { date_from: "-30d" } };
  await page.goto(`/project/1/insights/${id}#q=${encodeURIComponent(JSON.stringify(draft))}`);
  await ready(page);
  await expect(page.getByRole("button", { name: "Range: Last 30 days" })).toBeVisible();
  await page.getByRole("button", { name: "Discard changes" }).click();
  await expect(page.getByRole("button", { name: "Range: Last 7 days" })).toBeVisible();
  await page.getByRole("button", { name: "Add to favorites" }).click();
  await expect(page.getByRole("button", { name: "Remove from favorites" })).toBeVisible();
  await page.getByRole("button", { name: "More actions" }).click();
  await checkPage(page, "builder menu");
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { name: "Insights", level: 1 })).toBeVisible();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("link", { name: "Pages of the journey" })).toBeVisible();
});

test("insights are tagged together", async ({ page, admin }) => {
  for (const name of ["Bulk one", "Bulk two"]) {
    await admin.post("/api/projects/1/insights", {
      data: { name, saved: true, query: { kind: "TrendsQuery", series: SERIES } },
    });
  }
  await page.goto("/project/1/insights?search=Bulk");
  await page.getByRole("checkbox", { name: "Choose Bulk one" }).click();
  await page.getByRole("checkbox", { name: "Choose Bulk two" }).click();
  await checkPage(page, "insights chosen");
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByLabel("Tags").fill("journey,");
  await page.getByRole("button", { name: "Add tags" }).click();
  await expect(page.getByText("Tagged 2 insights")).toBeVisible();
  await page.goto("/project/1/insights?tag=journey");
  await expect(page.getByRole("listitem").filter({ hasText: "Bulk" })).toHaveCount(2);
});

test("on a phone the query is in a drawer below the chart", async ({ page }) => {
  await page.setViewportSize({ width: 375, height: 740 });
  await page.goto(link({ kind: "TrendsQuery", series: SERIES, dateRange: { date_from: "-7d" } }));
  await page.getByRole("button", { name: "Edit query" }).click();
  const drawer = page.getByRole("dialog", { name: "Query" });
  await expect(drawer.getByRole("heading", { name: "Series" })).toBeVisible();
  await checkPresentWidth(page, "builder drawer");
});
