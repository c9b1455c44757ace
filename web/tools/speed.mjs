// Measures in Chromium how fast the interface of a running server is, beside a bare page in the same
// browser, and prints one JSON object of milliseconds: `make bench SECTIONS=ui` runs it. The server is at
// HEDGEROW_URL, HEDGEROW_PASSWORD is its administrator's; FROM and TO are days that have page views.
import { once } from "node:events";
import { createServer } from "node:http";
import { chromium } from "@playwright/test";

const ROUNDS = 9;
/// As many minutes as a chart may have, nearly.
const MINUTES = 9_960;
const DAY_MS = 86_400_000;
const { HEDGEROW_URL: url, HEDGEROW_PASSWORD: password, FROM: from, TO: to } = process.env;
if (!url || !password || !from || !to)
  throw new Error("HEDGEROW_URL, HEDGEROW_PASSWORD, FROM or TO is missing");

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function rounds(measure) {
  const values = [];
  for (let round = 0; round < ROUNDS; round++) values.push(await measure(round));
  return median(values);
}

/// Opens an address in a new tab; returns when its largest element was painted.
async function largestPaint(context, address, heading) {
  const page = await context.newPage();
  await page.goto(address);
  await page.locator(heading).first().waitFor();
  const painted = await page.evaluate(
    () =>
      new Promise((resolve) => {
        let last = 0;
        new PerformanceObserver((list) => {
          last = list.getEntries().at(-1).startTime;
        }).observe({ type: "largest-contentful-paint", buffered: true });
        setTimeout(() => resolve(last), 300);
      }),
  );
  await page.close();
  return painted;
}

/// In the page: runs `action`, waits until the text of `selector` is another one, then for the frame that
/// shows it. Returns the milliseconds.
function untilPainted([selector, action]) {
  const text = () => document.querySelector(selector)?.textContent;
  const before = text();
  return new Promise((resolve) => {
    const started = performance.now();
    const look = () => {
      if (text() === before) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)));
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    new Function(action)();
  });
}

const insight = (query) =>
  `${url}/project/1/insights/new#q=${encodeURIComponent(JSON.stringify(query))}`;
const trend = (event, more) => ({
  kind: "TrendsQuery",
  series: [{ kind: "EventsNode", event }],
  ...more,
});
const day = (at) => new Date(Date.parse(from) + at * DAY_MS).toISOString().slice(0, 10);
const goTo = (address) => `location.hash = ${JSON.stringify(new URL(address).hash)}`;

const bare = createServer((_, response) => {
  response.setHeader("Content-Type", "text/html");
  response.end(
    "<!doctype html><title>bare</title><h1>A page with a heading</h1><figcaption>0</figcaption>",
  );
}).listen(0, "127.0.0.1");
await once(bare, "listening");
const barePage = `http://127.0.0.1:${bare.address().port}/`;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
  });
  const session = await context.request.post("/api/login", {
    data: { email: "admin@hedgerow.local", password },
  });
  if (!session.ok()) throw new Error(await session.text());

  const results = {};
  results.bare_lcp = await rounds(() => largestPaint(context, barePage, "h1"));
  const chart = insight(trend("$pageview", { dateRange: { date_from: from, date_to: to } }));
  results.insight_lcp = await rounds(() => largestPaint(context, chart, "figure canvas"));
  results.home_lcp = await rounds(() => largestPaint(context, `${url}/project/1/home`, "h1"));

  const page = await context.newPage();
  await page.goto(barePage);
  results.bare_frame = await rounds((round) =>
    page.evaluate(untilPainted, [
      "figcaption",
      `document.querySelector("figcaption").textContent = "${round + 1}"`,
    ]),
  );

  await page.goto(chart);
  await page.locator("figure canvas").waitFor();
  results.range_change = await rounds((round) => {
    const dateRange = { date_from: day(round + 1), date_to: to };
    return page.evaluate(untilPainted, [
      "figcaption",
      goTo(insight(trend("$pageview", { dateRange }))),
    ]);
  });

  const until = new Date(Date.parse(from) + MINUTES * 60_000).toISOString();
  const minutes = { interval: "minute", dateRange: { date_from: from, date_to: until } };
  await page.goto(insight(trend("$pageview", minutes)));
  await page.reload();
  await page.locator("figure canvas").waitFor();
  results.redraw = await rounds(async () => {
    const canvas = await page.locator("figure canvas").first().boundingBox();
    return page.evaluate(async (width) => {
      const element = document.querySelector("figure canvas");
      const frame = element.closest("figure");
      const next = () =>
        new Promise((resolve) =>
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))),
        );
      await next();
      const started = performance.now();
      frame.style.setProperty("width", `${width - 1}px`);
      await next();
      const drawn = performance.now() - started;
      frame.style.removeProperty("width");
      await next();
      return drawn;
    }, canvas.width);
  });

  const live = insight(trend("ui speed", { interval: "hour", dateRange: { date_from: "-24h" } }));
  const send = (uuid) =>
    context.request.post("/capture/", {
      data: { api_key: process.env.HEDGEROW_PROJECT_KEY, event: "ui speed", distinct_id: uuid },
    });
  await send("first");
  await page.goto(live);
  await page.reload();
  await page.locator("figure canvas").waitFor();
  await page.waitForTimeout(1_500);
  results.capture = await rounds(async (round) => {
    const painted = page.evaluate(untilPainted, ["figcaption", ""]);
    await send(`person-${round}`);
    const ms = await painted;
    await page.waitForTimeout(1_200);
    return ms;
  });
  console.log(JSON.stringify(results));
} finally {
  await browser.close();
  bare.close();
}
