import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { type APIRequestContext, type Browser, expect } from "@playwright/test";

/// The PostHog SDKs that `tools/install-test-deps` installs.
const installed =
  process.env.HEDGEROW_TEST_DEPS ??
  join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "hedgerow/test-deps");

/// The address of the server itself, which may be behind `vite preview`.
export function serverUrl(): string {
  return process.env.HEDGEROW_SERVER ?? process.env.HEDGEROW_URL ?? "http://127.0.0.1:8000";
}

export interface SentEvent {
  event: string;
  distinct_id: string;
  properties?: Record<string, unknown>;
}

/// Sends events with posthog-python.
export async function sendWithPython(key: string, events: SentEvent[]): Promise<void> {
  const script = `
import json, sys
from posthog import Posthog
host, key, events = sys.argv[1:4]
posthog = Posthog(key, host=host, sync_mode=True)
for event in json.loads(events):
    posthog.capture(event["event"], distinct_id=event["distinct_id"], properties=event.get("properties"))
posthog.shutdown()
`;
  const args = ["-c", script, serverUrl(), key, JSON.stringify(events)];
  await new Promise<void>((resolve, reject) => {
    execFile(join(installed, "venv/bin/python"), args, (error, _, stderr) =>
      error ? reject(new Error(stderr || error.message)) : resolve(),
    );
  });
}

/// Visits a website with the snippet of the onboarding page, and runs a call of posthog-js there.
export async function visitWebsite(browser: Browser, snippet: string, call: string): Promise<void> {
  // posthog-js sends nothing for browsers that say they are automated.
  const context = await browser.newContext({
    userAgent:
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
  });
  await context.addInitScript(() =>
    Object.defineProperty(navigator, "webdriver", { get: () => false }),
  );
  // On the same network as the server: Chromium keeps pages of the internet from it.
  const website = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><html lang="en"><head><title>Shop</title>
      <link rel="icon" href="data:,">${snippet}</head><body><script>${call}</script></body></html>`);
  });
  await new Promise<void>((resolve) => website.listen(0, "127.0.0.1", resolve));
  try {
    const page = await context.newPage();
    const sent = page.waitForResponse(
      (response) => /\/(e|i\/v0\/e|batch|capture)\/(\?|$)/.test(response.url()) && response.ok(),
    );
    await page.goto(`http://127.0.0.1:${(website.address() as AddressInfo).port}/`);
    await sent;
  } finally {
    await context.close();
    website.close();
  }
}

export interface TestProject {
  id: number;
  key: string;
}

/// A project of its own, so that journeys do not see each other's events.
export async function newProject(admin: APIRequestContext, name: string): Promise<TestProject> {
  const answer = await admin.post("/api/projects/", { data: { name } });
  expect(answer.ok(), await answer.text()).toBe(true);
  const { id, api_token } = (await answer.json()) as { id: number; api_token: string };
  return { id, key: api_token };
}

/// Sends a batch as it is, also a wrong one.
export async function sendBatch(
  admin: APIRequestContext,
  key: string,
  batch: readonly unknown[],
): Promise<void> {
  const answer = await admin.post("/batch/", { data: { api_key: key, batch } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

/// Waits until the project has stored so many events.
export async function waitForEvents(
  admin: APIRequestContext,
  project: TestProject,
  count: number,
): Promise<void> {
  await expect(async () => {
    const answer = await admin.get(`/api/projects/${project.id}/events/?limit=${count}`);
    const { results } = (await answer.json()) as { results: unknown[] };
    expect(results).toHaveLength(count);
  }).toPass({ intervals: [100] });
}
