import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import {
  type APIRequest,
  type APIRequestContext,
  test as base,
  type Cookie,
  expect,
  type Page,
} from "@playwright/test";

export { expect };

const axeSource = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

export const ADMIN = {
  email: "admin@hedgerow.local",
  password: process.env.HEDGEROW_PASSWORD ?? "journey-password-1",
};
export const PROJECT_KEY = process.env.HEDGEROW_PROJECT_KEY ?? "phc_journey";
const PERSONAL_KEY = process.env.HEDGEROW_PERSONAL_KEY ?? "phx_journey";

interface Fixtures {
  /// Whether the browser has a session when the test begins.
  loggedIn: boolean;
  /// Console messages that the test provokes.
  expectedErrors: RegExp;
  /// The API as the administrator, for what a test needs beforehand.
  admin: APIRequestContext;
}

interface WorkerFixtures {
  /// The administrator's session: hashing the password for each test would cost more than the test.
  session: Cookie[];
}

/// Logs in and returns the cookies of the session.
export async function logIn(
  request: APIRequest,
  baseURL: string | undefined,
  account: { email: string; password: string },
): Promise<Cookie[]> {
  const client = await request.newContext({ baseURL });
  const answer = await client.post("/api/login", { data: account });
  expect(answer.ok(), await answer.text()).toBe(true);
  const { cookies } = await client.storageState();
  await client.dispose();
  return cookies;
}

/// Collects what fails a test: console errors (CSP reports are some) and exceptions.
export function watch(page: Page, expected: RegExp): string[] {
  const problems: string[] = [];
  const report = (text: string) => {
    if (!expected.test(text)) problems.push(text);
  };
  page.on("console", (message) => {
    if (message.type() === "error") report(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => report(error.stack ?? error.message));
  return problems;
}

/// The API as the administrator.
export function adminApi(request: APIRequest): Promise<APIRequestContext> {
  return request.newContext({
    baseURL: process.env.HEDGEROW_SERVER ?? process.env.HEDGEROW_URL,
    extraHTTPHeaders: { Authorization: `Bearer ${PERSONAL_KEY}` },
  });
}

/// A browser with a session. A console error, an exception or a CSP report fails the test.
export const test = base.extend<Fixtures, WorkerFixtures>({
  loggedIn: [true, { option: true }],
  expectedErrors: [/^$/, { option: true }],
  session: [
    async ({ playwright }, use) => {
      await use(await logIn(playwright.request, process.env.HEDGEROW_URL, ADMIN));
    },
    { scope: "worker" },
  ],
  admin: async ({ playwright }, use) => {
    const admin = await adminApi(playwright.request);
    await use(admin);
    await admin.dispose();
  },
  page: async ({ page, context, loggedIn, session, expectedErrors }, use) => {
    const problems = watch(page, expectedErrors);
    if (loggedIn) await context.addCookies(session);
    await use(page);
    expect(problems, "console errors and policy reports").toEqual([]);
  },
});

interface Violation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary?: string }[];
}

/// What a theme can break; the other rules see the same page in both.
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/// Dimmed rows of the previous answer have less contrast until the next one is there.
const DIMMED = ".opacity-60, .opacity-70";
const DIMMED_MS_MAX = 5_000;
/// Rows may be dimmed again while axe runs: then it runs once more.
const AXE_RUNS_MAX = 3;

async function axe(page: Page, where: string, rules: string[] | null): Promise<void> {
  for (let run = 1; ; run++) {
    await animated(page);
    const { text, wasDimmed } = await violations(page, rules);
    if (text.length > 0 && wasDimmed && run < AXE_RUNS_MAX) {
      await undimmed(page);
      continue;
    }
    expect.soft(text, `axe: ${where}`).toEqual([]);
    return;
  }
}

/// Without a server rows stay dimmed, and axe judges them as they are.
async function undimmed(page: Page): Promise<void> {
  await page
    .locator(DIMMED)
    .first()
    .waitFor({ state: "detached", timeout: DIMMED_MS_MAX })
    .catch(() => {});
}

/// Transitions blend colours: axe must see their end. Spinners and what follows scrolling have none.
async function animated(page: Page): Promise<void> {
  await page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter((one) => one.timeline === document.timeline)
        .filter((one) => one.effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY)
        .map((one) => one.finished.catch(() => {})),
    ),
  );
}

async function violations(
  page: Page,
  rules: string[] | null,
): Promise<{ text: string[]; wasDimmed: boolean }> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const found = await page.evaluate(
    async ({ only, dimmed }) => {
      const { axe } = window as unknown as {
        axe: { run: (options: object) => Promise<{ violations: Violation[] }> };
      };
      const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
      const options = only
        ? { runOnly: { type: "rule", values: only } }
        : {
            runOnly: { type: "tag", values: tags },
            // Popups are portals beside the landmarks.
            rules: { region: { enabled: false } },
          };
      const isDimmed = () => document.querySelector(dimmed) !== null;
      let wasDimmed = isDimmed();
      const observer = new MutationObserver(() => {
        wasDimmed ||= isDimmed();
      });
      observer.observe(document, { subtree: true, childList: true, attributeFilter: ["class"] });
      const { violations } = await axe.run({ ...options, resultTypes: ["violations"] });
      observer.disconnect();
      return { violations, wasDimmed };
    },
    { only: rules, dimmed: DIMMED },
  );
  const text = found.violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map(({ html, failureSummary }) => `  ${html}\n  ${failureSummary}`).join("\n")}`,
  );
  return { text, wasDimmed: found.wasDimmed };
}

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 375, height: 740 };

/// Waits until nothing on the page loads.
export async function settled(page: Page): Promise<void> {
  // What lies below the screen loads when it is seen.
  const loading = () =>
    page.locator(".skeleton, [aria-busy=true]").evaluateAll(
      (all) =>
        all.filter((one) => {
          const { top, bottom } = one.getBoundingClientRect();
          return top < window.innerHeight && bottom > 0;
        }).length +
        // What fades in or out has less contrast meanwhile.
        document.getAnimations().filter((one) => one instanceof CSSTransition).length,
    );
  await expect.poll(loading, { intervals: [50, 100, 250] }).toBe(0);
}

/// Waits for the parts that the shell loads after its start, so that they open without a server.
export async function preloaded(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
    return ["SessionDialog", "ToastViewport"].every((part) =>
      loaded.some((name) => name.includes(part)),
    );
  });
}

type Appearance = readonly [theme: "light" | "dark", size: typeof WIDE];
const APPEARANCES: readonly Appearance[] = [
  ["light", WIDE],
  ["dark", WIDE],
  ["light", NARROW],
  ["dark", NARROW],
];

/// `make test-full` checks all appearances. Otherwise one that the name chooses: the same in each run.
function sample(name: string, appearances: readonly Appearance[]): readonly Appearance[] {
  if (process.env.HEDGEROW_TEST_FULL) return appearances;
  const words = name.replace(/\d+/g, "");
  const sum = [...words].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) % 65_521, 7);
  return appearances.slice(sum % appearances.length).slice(0, 1);
}

/// Runs axe on what is shown, with its open popups, in a sample of both themes and both widths.
export async function checkPage(
  page: Page,
  name: string,
  appearances = APPEARANCES,
): Promise<void> {
  await undimmed(page);
  const before = page.viewportSize();
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  const show = (value: string | undefined) =>
    page.evaluate((wanted) => {
      document.documentElement.dataset.theme = wanted;
    }, value ?? "system");
  const sampled = sample(name, appearances);
  for (const [value, size] of sampled) {
    if (page.viewportSize()?.width !== size.width) await page.setViewportSize(size);
    await show(value);
    const where = `${name}, ${value}, ${size.width} px`;
    // What does not depend on colours is looked at once for each width.
    const isOther = value === "dark" && sampled.length > 1;
    await axe(page, where, isOther ? COLOUR_RULES : null);
    if (process.env.SCREENSHOTS) {
      const file = `${name.replace(/\W+/g, "-")}-${size.width}-${value}.png`;
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/${file}` });
    }
  }
  await show(theme);
  if (before) await page.setViewportSize(before);
}

/// As `checkPage`, for what only one width has.
export async function checkPresentWidth(page: Page, name: string): Promise<void> {
  const size = page.viewportSize() ?? WIDE;
  await checkPage(page, name, [
    ["light", size],
    ["dark", size],
  ]);
}
