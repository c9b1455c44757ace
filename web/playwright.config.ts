import { defineConfig } from "@playwright/test";

export const LAN_HOST = "hedgerow.lan";

/// Journeys run in Debian's Chromium against a running server: `npm run e2e` starts one.
export default defineConfig({
  testDir: "e2e",
  outputDir: "test-results",
  // Wide, for machines that do other things as well.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  workers: 2,
  fullyParallel: true,
  reporter: [["list"]],
  use: {
    baseURL: process.env.HEDGEROW_URL ?? "http://127.0.0.1:8000",
    // Recording slows each action; TRACE=1 records, for a failure that its page does not explain.
    trace: process.env.TRACE ? "retain-on-failure" : "off",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        // A host of a LAN: plain HTTP that is no secure context.
        `--host-resolver-rules=MAP ${LAN_HOST} 127.0.0.1`,
      ],
    },
  },
});
