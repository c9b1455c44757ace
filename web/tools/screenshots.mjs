// Takes pictures of every screen on the demo project, at two widths and in both themes:
// `npm run screenshots -- DIR [part of a view's name…]`. With HEDGEROW_URL (and HEDGEROW_SERVER, where
// `vite preview` stands in front) it uses a running server with the journeys' secrets.
// `npm run screenshots -- --readme` takes those of the README into docs/images.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "@playwright/test";
import { secrets, startServer, web } from "./server.mjs";

const SIZES = [
  { width: 1280, height: 800 },
  { width: 375, height: 740 },
];
const THEMES = ["light", "dark"];
/// A full page is cut here, so that a picture stays readable.
const HEIGHT_MAX = 4_000;
const IDLE_MS_MAX = 1_500;
const SETTLE_MS_MAX = 10_000;

const pageview = { kind: "EventsNode", event: "$pageview", name: "$pageview" };
const paid = { kind: "EventsNode", event: "order paid", name: "order paid" };
const QUERIES = {
  trends: {
    kind: "TrendsQuery",
    series: [{ ...pageview, math: "dau" }],
    breakdownFilter: { breakdown: "$browser", breakdown_type: "event" },
    dateRange: { date_from: "-30d" },
    interval: "day",
  },
  number: {
    kind: "TrendsQuery",
    series: [{ ...paid, math: "sum", math_property: "revenue" }],
    compareFilter: { compare: true },
    dateRange: { date_from: "-14d" },
    trendsFilter: { display: "BoldNumber" },
  },
  pie: {
    kind: "TrendsQuery",
    series: [pageview],
    breakdownFilter: { breakdown: "$browser", breakdown_type: "event" },
    dateRange: { date_from: "-14d" },
    trendsFilter: { display: "ActionsPie" },
  },
  bars: {
    kind: "TrendsQuery",
    series: [pageview],
    breakdownFilter: { breakdown: "$referring_domain", breakdown_type: "event" },
    dateRange: { date_from: "-14d" },
    trendsFilter: { display: "ActionsBarValue" },
  },
  formula: {
    kind: "TrendsQuery",
    series: [
      { ...paid, math: "dau" },
      { ...pageview, math: "dau" },
    ],
    compareFilter: { compare: true },
    dateRange: { date_from: "-14d" },
    trendsFilter: { formulaNodes: [{ formula: "A / B", custom_name: "Visitors who buy" }] },
    properties: {
      type: "AND",
      values: [
        {
          type: "AND",
          values: [{ key: "$browser", operator: "exact", type: "event", value: ["Chrome"] }],
        },
      ],
    },
  },
  funnel: {
    kind: "FunnelsQuery",
    series: [pageview, { kind: "EventsNode", event: "added to cart" }, paid],
    dateRange: { date_from: "-30d" },
    funnelsFilter: { funnelWindowInterval: 1, funnelWindowIntervalUnit: "day" },
  },
  "funnel time": {
    kind: "FunnelsQuery",
    series: [{ kind: "EventsNode", event: "added to cart" }, paid],
    dateRange: { date_from: "-30d" },
    funnelsFilter: { funnelVizType: "time_to_convert" },
  },
  retention: {
    kind: "RetentionQuery",
    dateRange: { date_from: "-10d" },
    retentionFilter: {
      period: "Day",
      targetEntity: { id: "$pageview", name: "$pageview", type: "events" },
      returningEntity: { id: "$pageview", name: "$pageview", type: "events" },
      totalIntervals: 11,
    },
  },
  lifecycle: { kind: "LifecycleQuery", series: [pageview], dateRange: { date_from: "-30d" } },
  stickiness: { kind: "StickinessQuery", series: [pageview], dateRange: { date_from: "-14d" } },
  paths: {
    kind: "PathsQuery",
    pathsFilter: { includeEventTypes: ["$pageview"], startPoint: "/", stepLimit: 4 },
    dateRange: { date_from: "-14d" },
  },
  refused: {
    kind: "TrendsQuery",
    series: [pageview],
    trendsFilter: { formulaNodes: [{ formula: "A+" }] },
  },
  incomplete: { kind: "FunnelsQuery", series: [pageview], dateRange: { date_from: "-7d" } },
};

const COHORT = encodeURIComponent(
  JSON.stringify({
    name: "Loyal customers",
    description: "",
    conditions: {
      type: "AND",
      values: [
        { type: "person", key: "plan", operator: "exact", value: ["pro"] },
        {
          type: "behavioral",
          key: "order paid",
          event_type: "events",
          value: "performed_event_multiple",
          operator: "gte",
          operator_value: 2,
          time_value: 30,
          time_interval: "day",
        },
        {
          type: "OR",
          values: [
            { type: "person", key: "email", operator: "icontains", value: "example" },
            { type: "person", key: "$geoip_country_code", operator: "exact", value: ["DE"] },
          ],
        },
      ],
    },
  }),
);

const SQL = encodeURIComponent(
  JSON.stringify({
    kind: "HogQLQuery",
    query:
      "-- Orders of each day\nSELECT toStartOfDay(timestamp) AS day, properties.$browser AS browser, count() AS orders\nFROM events\nWHERE event = 'order paid' AND timestamp > now() - INTERVAL 30 DAY\n  AND properties.$browser != {variables.browser}\nGROUP BY day, browser ORDER BY day",
    variables: { browser: { code_name: "browser", value: "Opera" } },
  }),
);

const click = (role, name) => async (page) => {
  await page.getByRole(role, { name }).filter({ visible: true }).first().click();
};
const tab = (name) => click("tab", name);
/// The same action on a phone is in a drawer.
const openQuery = async (page, phone) => {
  if (phone) await page.getByRole("button", { name: "Edit query" }).click();
};

/// Each view: its name, its path and what is done there. `fold` takes the window, not the whole page.
function views({ demo, empty, dashboard, number, shared, sharedInsight, person, ...more }) {
  const { flag, groupFlag, caller } = more;
  const project = `/project/${demo}`;
  const draft = (query) =>
    `${project}/insights/new#q=${encodeURIComponent(JSON.stringify(QUERIES[query]))}`;
  const list = [
    { name: "setup", path: "/setup#token", anonymous: true },
    { name: "setup without token", path: "/setup", anonymous: true },
    { name: "log-in", path: "/login", anonymous: true },
    {
      name: "log-in refused",
      path: "/login",
      anonymous: true,
      steps: [
        async (page) => {
          await page.getByLabel("E-mail").fill("admin@hedgerow.local");
          await page.getByLabel("Password").fill("wrong");
          await page.keyboard.press("Enter");
          await page.getByRole("alert").waitFor();
        },
      ],
    },
    { name: "home", path: `${project}/home` },
    { name: "home empty", path: `/project/${empty}/home` },
    { name: "onboarding", path: `/project/${empty}/onboarding` },
    { name: "onboarding python", path: `/project/${empty}/onboarding?sdk=python` },
    { name: "onboarding arrived", path: `${project}/onboarding` },
    { name: "insights", path: `${project}/insights` },
    { name: "insights empty", path: `/project/${empty}/insights` },
    { name: "insights none match", path: `${project}/insights?search=zzzz` },
    {
      name: "insights chosen",
      path: `${project}/insights`,
      fold: true,
      steps: [click("checkbox", "Select Orders, two weeks")],
    },
    { name: "insight saved", path: `${project}/insights/${number}` },
    {
      name: "insight menu",
      path: `${project}/insights/${number}`,
      fold: true,
      steps: [click("button", "More actions")],
    },
    ...Object.keys(QUERIES).map((query) => ({ name: `builder ${query}`, path: draft(query) })),
    { name: "builder table", path: draft("trends"), steps: [tab("Table")] },
    { name: "builder funnel table", path: draft("funnel"), steps: [tab("Table")] },
    { name: "builder retention table", path: draft("retention"), steps: [tab("Table")] },
    { name: "builder paths table", path: draft("paths"), steps: [tab("Table")] },
    { name: "builder SQL", path: draft("trends"), steps: [tab("SQL")] },
    { name: "builder API", path: draft("trends"), steps: [tab("API")] },
    ...["trends", "funnel", "retention", "paths", "stickiness", "lifecycle"].map((query) => ({
      name: `builder drawer ${query}`,
      path: draft(query),
      fold: true,
      only: 375,
      steps: [openQuery],
    })),
    {
      name: "builder kinds",
      path: draft("trends"),
      fold: true,
      steps: [click("button", /^More(?! actions)/)],
    },
    {
      name: "builder event picker",
      path: draft("trends"),
      fold: true,
      steps: [openQuery, click("combobox", "Add series")],
    },
    {
      name: "builder property picker",
      path: draft("trends"),
      fold: true,
      steps: [openQuery, click("combobox", "Add filter")],
    },
    {
      name: "builder math",
      path: draft("trends"),
      fold: true,
      steps: [openQuery, click("combobox", /^How it counts/)],
    },
    {
      name: "builder options",
      path: draft("trends"),
      fold: true,
      steps: [openQuery, click("button", "Add option")],
    },
    {
      name: "builder range",
      path: draft("trends"),
      fold: true,
      steps: [click("button", /^Range:/)],
    },
    { name: "builder save", path: draft("trends"), fold: true, steps: [click("button", "Save")] },
    ...["persons", "events", "SQL", "API"].map((which) => ({
      name: `explain ${which}`,
      path: draft("number"),
      fold: true,
      steps: [
        async (page) => page.getByRole("figure").getByRole("button").first().click(),
        ...(which === "persons"
          ? []
          : [
              async (page) =>
                page
                  .getByRole("dialog")
                  .getByRole("tab", { name: new RegExp(which, "i") })
                  .click(),
            ]),
      ],
    })),
    {
      name: "palette",
      path: `${project}/home`,
      fold: true,
      steps: [async (page) => page.keyboard.press("ControlOrMeta+k")],
    },
    {
      name: "palette search",
      path: `${project}/home`,
      fold: true,
      steps: [
        async (page) => {
          await page.keyboard.press("ControlOrMeta+k");
          await page.getByRole("dialog").waitFor();
          await page.keyboard.type("rev");
        },
        async (page) => page.waitForTimeout(800),
      ],
    },
    {
      name: "keyboard sheet",
      path: `${project}/home`,
      fold: true,
      steps: [async (page) => page.keyboard.press("?")],
    },
    {
      name: "account menu",
      path: `${project}/home`,
      fold: true,
      only: 1280,
      steps: [click("button", /Account/)],
    },
    {
      name: "project switcher",
      path: `${project}/home`,
      fold: true,
      only: 1280,
      steps: [click("button", /Project:/)],
    },
    {
      name: "phone menu",
      path: `${project}/home`,
      fold: true,
      only: 375,
      steps: [async (page) => page.getByRole("button", { name: "More", exact: true }).click()],
    },
    ...["project", "access", "organization", "members", "roles", "account", "keys"].map((page) => ({
      name: `settings ${page}`,
      path: `${project}/settings/${page}`,
    })),
    {
      name: "settings access object",
      path: `${project}/settings/access?kind=dashboard&id=${dashboard}`,
    },
    {
      name: "settings new key",
      path: `${project}/settings/keys`,
      fold: true,
      steps: [click("button", "New key")],
    },
    {
      name: "settings add member",
      path: `${project}/settings/members`,
      fold: true,
      steps: [click("button", "Add member")],
    },
    {
      name: "settings delete project",
      path: `${project}/settings/project`,
      fold: true,
      steps: [click("button", "Delete project")],
    },
    { name: "activity log", path: `${project}/activity-log` },
    {
      name: "activity log changes",
      path: `${project}/activity-log?scope=FeatureFlag`,
      steps: [
        async (page) => {
          for (const button of await page.getByRole("button", { name: /^Changes of/ }).all()) {
            await button.click();
          }
        },
      ],
    },
    ...["events", "properties", "actions", "annotations", "variables"].map((page) => ({
      name: `definitions ${page}`,
      path: `${project}/data-management/${page}`,
    })),
    {
      name: "definitions event",
      path: `${project}/data-management/events`,
      fold: true,
      steps: [click("button", "order paid")],
    },
    {
      name: "definitions property",
      path: `${project}/data-management/properties?search=revenue`,
      fold: true,
      steps: [click("button", "revenue")],
    },
    {
      name: "definitions action",
      path: `${project}/data-management/actions`,
      steps: [async (page) => page.locator("tbody a").first().click(), settleLater],
    },
    {
      name: "definitions new action",
      path: `${project}/data-management/actions/new?event=order+paid`,
    },
    {
      name: "definitions new annotation",
      path: `${project}/data-management/annotations`,
      fold: true,
      steps: [click("button", "New annotation")],
    },
    {
      name: "definitions annotations empty",
      path: `/project/${empty}/data-management/annotations`,
    },
    { name: "instance status", path: `${project}/instance/status` },
    { name: "dashboards", path: `${project}/dashboard` },
    { name: "dashboards empty", path: `/project/${empty}/dashboard` },
    {
      name: "dashboard new",
      path: `${project}/dashboard`,
      fold: true,
      steps: [click("button", "New dashboard")],
    },
    { name: "dashboard", path: `${project}/dashboard/${dashboard}` },
    {
      name: "dashboard edit",
      path: `${project}/dashboard/${dashboard}`,
      only: 1280,
      steps: [click("button", "Edit layout")],
    },
    {
      name: "dashboard filtered",
      path: `${project}/dashboard/${dashboard}?date_from=-7d&interval=day`,
      fold: true,
    },
    {
      name: "dashboard range",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", /^Range:/)],
    },
    {
      name: "dashboard tile menu",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", /^Actions of Orders/)],
    },
    {
      name: "dashboard menu",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", "More actions")],
    },
    {
      name: "dashboard add",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", "Add")],
    },
    {
      name: "dashboard add insight",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", "Add"), click("menuitem", "Saved insight")],
    },
    {
      name: "dashboard add text",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", "Add"), click("menuitem", "Text")],
    },
    {
      name: "dashboard share",
      path: `${project}/dashboard/${dashboard}`,
      fold: true,
      steps: [click("button", "Share")],
    },
    { name: "events", path: `${project}/activity/explore`, fold: true },
    { name: "events empty", path: `/project/${empty}/activity/explore` },
    {
      name: "events filtered",
      path: `${project}/activity/explore?event=order+paid`,
      fold: true,
      steps: [click("combobox", "Add filter")],
    },
    {
      name: "events range",
      path: `${project}/activity/explore?after=2026-01-01&before=2026-03-01`,
      fold: true,
      steps: [click("button", /^Range:/)],
    },
    {
      name: "events columns",
      path: `${project}/activity/explore`,
      fold: true,
      steps: [click("button", "Columns")],
    },
    ...["", "Person", "JSON"].map((which) => ({
      name: `event drawer ${which}`.trim(),
      path: `${project}/activity/explore?event=order+paid`,
      fold: true,
      steps: [
        async (page) => page.getByRole("row").nth(1).getByRole("button").first().click(),
        ...(which ? [tab(which)] : []),
      ],
    })),
    {
      name: "live",
      path: `${project}/activity/live`,
      fold: true,
      steps: [async (_page, _phone, send) => send()],
    },
    { name: "refused events", path: `${project}/activity/live?tab=refused`, fold: true },
    { name: "refused empty", path: `/project/${empty}/activity/live?tab=refused`, fold: true },
    { name: "persons", path: `${project}/persons`, fold: true },
    ...["", "Delete"].map((which) => ({
      name: `persons chosen ${which}`.trim(),
      path: `${project}/persons`,
      fold: true,
      steps: [
        click("checkbox", /^Choose /),
        click("button", /^Choose (all|the first)/),
        ...(which ? [click("button", which)] : []),
      ],
    })),
    { name: "persons empty", path: `/project/${empty}/persons` },
    {
      name: "persons filtered",
      path: `${project}/persons?properties=${encodeURIComponent(JSON.stringify([{ key: "email", type: "person", operator: "is_set" }]))}`,
      fold: true,
    },
    ...["", "properties", "ids", "cohorts", "flags", "groups", "activity"].map((which) => ({
      name: `person ${which || "timeline"}`,
      path: `${project}/persons/${person}${which && `?tab=${which}`}`,
      fold: true,
    })),
    {
      name: "person property edited",
      path: `${project}/persons/${person}?tab=properties`,
      fold: true,
      steps: [click("button", "Add property")],
    },
    ...["Merge with another person", "Delete"].map((which) => ({
      name: `person dialog ${which}`,
      path: `${project}/persons/${person}`,
      fold: true,
      steps: [click("button", "More actions"), click("menuitem", which)],
    })),
    { name: "groups", path: `${project}/groups/0`, fold: true },
    { name: "groups empty", path: `/project/${empty}/groups/0` },
    ...["", "related", "timeline"].map((which) => ({
      name: `group ${which || "properties"}`,
      path: `${project}/groups/0`,
      fold: true,
      steps: [
        async (page) => page.getByRole("row").nth(1).getByRole("link").first().click(),
        ...(which ? [tab(which === "related" ? "Persons and groups" : "Timeline")] : []),
      ],
    })),
    { name: "cohorts", path: `${project}/cohorts`, fold: true },
    { name: "cohorts empty", path: `/project/${empty}/cohorts` },
    { name: "cohort static", path: `${project}/cohorts/${more.staticCohort}`, fold: true },
    { name: "cohort new", path: `${project}/cohorts/new`, fold: true },
    { name: "cohort new edited", path: `${project}/cohorts/new#q=${COHORT}`, fold: true },
    { name: "cohort new static", path: `${project}/cohorts/new?static=true`, fold: true },
    ...["", "conditions", "used", "activity"].map((which) => ({
      name: `cohort ${which || "persons"}`,
      path: `${project}/cohorts/${more.cohort}${which && `?tab=${which}`}`,
      fold: true,
    })),
    { name: "sql empty", path: `${project}/sql`, fold: true },
    {
      name: "sql tables drawer",
      path: `${project}/sql`,
      fold: true,
      only: 375,
      steps: [async (page) => page.getByRole("button", { name: "Tables", exact: true }).click()],
    },
    ...["table", "chart"].map((which) => ({
      name: `sql ${which}`,
      path: `${project}/sql#q=${SQL}`,
      fold: true,
      steps: [
        click("button", "Run"),
        async (page) => page.getByText("rows in").waitFor(),
        ...(which === "chart" ? [tab("Chart")] : []),
      ],
    })),
    {
      name: "sql completion",
      path: `${project}/sql#q=${SQL}`,
      fold: true,
      steps: [
        async (page) => {
          await page.getByRole("textbox", { name: "SQL" }).click();
          await page.keyboard.press("ControlOrMeta+End");
          await page.keyboard.type(" AND properties.");
        },
      ],
    },
    {
      name: "sql error",
      path: `${project}/sql#q=${encodeURIComponent(JSON.stringify("SELECT evnt, count()\nFROM events\nGROUP BY evnt"))}`,
      fold: true,
      steps: [click("button", "Run")],
    },
    {
      name: "sql history",
      path: `${project}/sql#q=${SQL}`,
      fold: true,
      steps: [click("button", "Run"), click("button", "History")],
    },
    {
      name: "sql save",
      path: `${project}/sql#q=${SQL}`,
      fold: true,
      steps: [click("button", "Save as insight")],
    },
    { name: "flags", path: `${project}/feature_flags`, fold: true },
    { name: "flags empty", path: `/project/${empty}/feature_flags`, fold: true },
    {
      name: "flags switch",
      path: `${project}/feature_flags`,
      fold: true,
      steps: [click("switch", /new-checkout/)],
    },
    ...["", "Tags", "Copy to projects"].map((which) => ({
      name: `flags chosen ${which}`.trim(),
      path: `${project}/feature_flags`,
      fold: true,
      steps: [
        click("checkbox", "Choose new-checkout"),
        click("button", /^Choose all/),
        ...(which ? [click("button", which)] : []),
      ],
    })),
    { name: "flag new", path: `${project}/feature_flags/new` },
    { name: "flag settings", path: `${project}/feature_flags/${flag}` },
    {
      name: "flag review",
      path: `${project}/feature_flags/${flag}`,
      fold: true,
      steps: [
        async (page) => page.getByRole("slider", { name: "Rollout of condition 1" }).fill("80"),
        click("button", "Review and save"),
      ],
    },
    {
      name: "flag review why",
      path: `${project}/feature_flags/${flag}`,
      fold: true,
      steps: [
        async (page) => page.getByRole("slider", { name: "Rollout of condition 1" }).fill("80"),
        click("button", "Review and save"),
        click("button", /^Why /),
      ],
    },
    {
      name: "flag condition menu",
      path: `${project}/feature_flags/${flag}`,
      fold: true,
      steps: [click("button", "Move, copy or remove condition 1")],
    },
    {
      name: "flag property picker",
      path: `${project}/feature_flags/${flag}`,
      fold: true,
      steps: [click("combobox", "Add filter of condition 1")],
    },
    {
      name: "flag menu",
      path: `${project}/feature_flags/${flag}`,
      fold: true,
      steps: [click("button", "More actions")],
    },
    { name: "flag why", path: `${project}/feature_flags/${flag}?tab=why&who=${caller}` },
    { name: "flag usage", path: `${project}/feature_flags/${flag}?tab=usage` },
    {
      name: "flag history",
      path: `${project}/feature_flags/${flag}?tab=history`,
      steps: [click("button", /^Details of the change/)],
    },
    { name: "flag access", path: `${project}/feature_flags/${flag}?tab=access` },
    { name: "flag code", path: `${project}/feature_flags/${flag}?tab=code` },
    { name: "flag of groups", path: `${project}/feature_flags/${groupFlag}` },
    { name: "flag not found", path: `${project}/feature_flags/999999`, fold: true },
    { name: "not found", path: `${project}/nothing-here` },
    { name: "project not found", path: "/project/99/home" },
    { name: "insight not found", path: `${project}/insights/aaaaaaaa` },
    { name: "shared dashboard", path: shared, shared: true },
    { name: "shared insight", path: sharedInsight, shared: true },
    { name: "shared dashboard without scripts", path: shared, shared: true, script: false },
    { name: "shared insight without scripts", path: sharedInsight, shared: true, script: false },
    {
      name: "shared not found",
      path: "/shared/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      shared: true,
      script: false,
    },
    {
      name: "offline",
      path: `${project}/home`,
      fold: true,
      steps: [
        async (page) => {
          await page.route(/\/(api|_livez)/, (route) => route.abort("connectionrefused"));
          await page.getByRole("link", { name: "Insights" }).filter({ visible: true }).click();
          await page.getByText("The server does not answer.").waitFor();
        },
      ],
    },
  ];
  return list;
}

/// Waits until nothing loads or moves, and shows what is drawn only when seen.
async function settle(page, scroll) {
  // The live stream keeps the network busy.
  await page.waitForLoadState("networkidle", { timeout: IDLE_MS_MAX }).catch(() => {});
  if (scroll) {
    await page.evaluate(async (max) => {
      for (let y = 0; y < Math.min(document.body.scrollHeight, max); y += 400) {
        window.scrollTo(0, y);
        await new Promise((done) => setTimeout(done, 120));
      }
      window.scrollTo(0, 0);
    }, HEIGHT_MAX);
  }
  await page
    .waitForFunction(() => !document.querySelector(".skeleton"), { timeout: SETTLE_MS_MAX })
    .catch(() => {});
  await page.waitForTimeout(400);
}

async function shoot(page, path, fold) {
  if (fold) return page.screenshot({ path });
  const { width } = page.viewportSize();
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  return page.screenshot({
    path,
    fullPage: true,
    clip: { x: 0, y: 0, width, height: Math.min(height, HEIGHT_MAX) },
  });
}

async function settleLater(page) {
  await page.waitForTimeout(IDLE_MS_MAX);
}

/// Flags of every kind; answers with the id of one that has variants, conditions and a history.
async function addFlags(call, api) {
  const create = (flag) => call("POST", `${api}/feature_flags/`, flag);
  const pro = { key: "plan", type: "person", operator: "exact", value: ["pro"] };
  const checkout = await create({
    key: "new-checkout",
    name: "One page in place of three",
    tags: ["checkout", "growth"],
    filters: {
      groups: [{ properties: [pro], rollout_percentage: 100 }, { rollout_percentage: 25 }],
    },
  });
  await create({
    key: "shop-settings",
    name: "Opening hours and shipping costs",
    is_remote_configuration: true,
    filters: { groups: [{}], payloads: { true: '{"shipping": 4.9}' } },
  });
  await create({ key: "winter-sale", active: false, filters: { groups: [{}] } });
  const { id } = await create({
    key: "product-page",
    name: "Which picture of a plant comes first",
    tags: ["experiment"],
    filters: {
      groups: [
        {
          properties: [{ key: "email", type: "person", operator: "icontains", value: "@" }],
          rollout_percentage: 50,
        },
        {
          properties: [
            pro,
            {
              key: String(checkout.id),
              type: "flag",
              operator: "flag_evaluates_to",
              value: true,
            },
          ],
          rollout_percentage: 100,
          variant: "garden",
        },
      ],
      multivariate: {
        variants: [
          { key: "control", name: "As it was", rollout_percentage: 50 },
          { key: "garden", name: "In a garden", rollout_percentage: 30 },
          { key: "pot", name: "In a pot", rollout_percentage: 20 },
        ],
      },
      payloads: { garden: '{"picture": "garden.webp"}' },
    },
  });
  await call("PATCH", `${api}/feature_flags/${id}/`, { tags: ["experiment", "growth"] });
  await call("PATCH", `${api}/feature_flags/${id}/`, { active: false });
  await call("PATCH", `${api}/feature_flags/${id}/`, { active: true });
  return id;
}

/// The demo project, an empty one, shared links and refused events.
async function prepare(server) {
  const call = async (method, path, data) => {
    const answer = await fetch(`${server}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secrets.personal}`,
        ...(data ? { "content-type": "application/json" } : {}),
      },
      body: data ? JSON.stringify(data) : undefined,
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const demo = await call("POST", "/api/projects/1/demo");
  const api = `/api/projects/${demo.id}`;
  const [dashboard] = (await call("GET", `${api}/dashboards/`)).results;
  const insights = (await call("GET", `${api}/insights/?limit=50`)).results;
  const named = (name) => insights.find((insight) => insight.name.startsWith(name));
  const flag = await addFlags(call, api);
  const flags = (await call("GET", `${api}/feature_flags/?key=invoice-export`)).results;
  const [caller] = (await call("GET", `${api}/persons/?limit=1`)).results[0].distinct_ids;
  const share = async (path) =>
    (await call("PATCH", `${api}/${path}/sharing/`, { enabled: true })).access_token;
  const send = (...batch) => call("POST", "/batch/", { api_key: demo.api_token, batch });
  await send(
    { event: "order paid", distinct_id: "ann", uuid: "nonsense" },
    { event: "odd time", distinct_id: "ben", timestamp: "yesterday-ish" },
    { event: "", distinct_id: "ann" },
  );
  const events = ["$pageview", "product viewed", "added to cart", "order paid"].map(
    (event, at) => ({
      event,
      distinct_id: `visitor-${at % 2}`,
      properties: { $current_url: "https://shop.example.com/plants/fern", $browser: "Firefox" },
    }),
  );
  const own = "/api/organizations/@current";
  const bea = await call("POST", `${own}/members/`, {
    email: "bea@example.com",
    first_name: "Bea",
    password: "screenshots-1",
  });
  const role = await call("POST", `${own}/roles/`, { name: "Support" });
  await call("POST", `${own}/roles/${role.id}/role_memberships/`, { user_uuid: bea.user.uuid });
  await call("PUT", `${api}/resource_access_controls/`, {
    resource: "feature_flag",
    role: role.id,
    access_level: "viewer",
  });
  await call("PUT", `${api}/dashboards/${dashboard.id}/access_controls/`, {
    organization_member: bea.id,
    access_level: "editor",
  });
  const [changed] = (await call("GET", `${api}/feature_flags/`)).results;
  await call("PATCH", `${api}/feature_flags/${changed.id}/`, {
    name: "Shown to more people since the new checkout",
    filters: { groups: [{ properties: [], rollout_percentage: 40 }] },
  });
  await call("POST", `${api}/annotations/`, {
    content: "Version 2 of the checkout is live",
    date_marker: new Date(Date.now() - 3 * 86_400_000).toISOString(),
    scope: "project",
  });
  await call("POST", `${api}/annotations/`, {
    content: "Spring campaign begins",
    date_marker: new Date(Date.now() - 9 * 86_400_000).toISOString(),
    scope: "dashboard",
    dashboard_id: dashboard.id,
  });
  const [flagCall] = (await call("GET", `${api}/events/?event=$feature_flag_called&limit=1`))
    .results;
  const [person] = (
    await call("GET", `${api}/persons/?limit=1&distinct_id=${flagCall?.distinct_id ?? ""}`)
  ).results;
  const cohorts = (await call("GET", `${api}/cohorts/`)).results;
  return {
    demo: demo.id,
    empty: 1,
    person: person.uuid,
    cohort: cohorts.find(({ is_static: list }) => !list).id,
    staticCohort: cohorts.find(({ is_static: list }) => list).id,
    dashboard: dashboard.id,
    number: named("Revenue, two weeks").short_id,
    flag,
    groupFlag: flags[0].id,
    caller,
    shared: `/shared/${await share(`dashboards/${dashboard.id}`)}`,
    sharedInsight: `/shared/${await share(`insights/${named("Where visitors").id}`)}`,
    send: () => send(...events),
  };
}

/// Pictures of the README: the demo's dashboard and the builder, down to the end of an element.
function readmeViews({ demo, dashboard }) {
  const query = encodeURIComponent(JSON.stringify(QUERIES.trends));
  const until = (role, name) => async (page) => {
    // Flag changes are drawn on the chart once they are known.
    await page.waitForTimeout(IDLE_MS_MAX);
    const box = await page.getByRole(role, { name }).boundingBox();
    await page.setViewportSize({ width: 1280, height: Math.round(box.y + box.height) + 12 });
  };
  return [
    {
      name: "dashboard",
      path: `/project/${demo}/dashboard/${dashboard}`,
      steps: [until("article", "Abandoned carts")],
    },
    {
      name: "builder",
      path: `/project/${demo}/insights/new#q=${query}`,
      steps: [until("region", "Result")],
    },
  ].map((view) => ({ ...view, fold: true }));
}

const [directory = "screenshots", ...wanted] = process.argv.slice(2);
const readme = directory === "--readme";
const out = readme ? join(web, "../docs/images") : directory;
mkdirSync(out, { recursive: true });

const running = process.env.HEDGEROW_URL;
const { server, url, stop } = running
  ? { server: process.env.HEDGEROW_SERVER ?? running, url: running, stop: async () => {} }
  : await startServer();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
let failed = 0;
try {
  const made = await prepare(server);
  const session = await browser.newContext({ baseURL: url });
  const logIn = await session.request.post("/api/login", {
    data: { email: "admin@hedgerow.local", password: secrets.password },
  });
  if (!logIn.ok()) throw new Error(`log-in: ${logIn.status()}`);
  const storageState = await session.storageState();
  await session.close();
  const all = readme ? readmeViews(made) : views(made);
  const chosen = all.filter(
    ({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)),
  );
  for (const view of chosen) {
    for (const size of readme ? [{ width: 1280, height: 1_000 }] : SIZES) {
      if (view.only && view.only !== size.width) continue;
      const context = await browser.newContext({
        baseURL: view.shared ? server : url,
        viewport: size,
        javaScriptEnabled: view.script ?? true,
        colorScheme: "light",
        ...(view.anonymous || view.shared ? {} : { storageState }),
      });
      const page = await context.newPage();
      try {
        await page.goto(view.path);
        // Without scripts, timers of the page never fire.
        if (view.script ?? true) await settle(page, !view.fold);
        for (const step of view.steps ?? []) await step(page, size.width < 640, made.send);
        if (view.steps) await settle(page, false);
        for (const theme of readme ? ["light"] : THEMES) {
          await page.emulateMedia({ colorScheme: theme });
          await page.waitForTimeout(150);
          const slug = view.name.replace(/\W+/g, "-");
          const file = readme ? `${slug}.png` : `${slug}-${size.width}-${theme}.png`;
          await shoot(page, join(out, file), view.fold);
        }
        console.log(`${view.name} ${size.width}`);
      } catch (error) {
        failed += 1;
        console.error(`${view.name} ${size.width}: ${error.message.split("\n")[0]}`);
      } finally {
        await context.close();
      }
    }
  }
} finally {
  await browser.close();
  await stop();
}
process.exit(failed ? 1 : 0);
