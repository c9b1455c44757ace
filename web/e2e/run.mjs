// Runs the journeys against a server of their own: `npm run e2e`, or `npm run e2e -- shell.spec.ts`.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { secrets, startServer, web } from "../tools/server.mjs";

let status = 1;
const began = Date.now();
try {
  const { binary, usesPreview, server, url, stop } = await startServer();
  const tests = spawn(
    join(web, "node_modules/.bin/playwright"),
    ["test", ...process.argv.slice(2)],
    {
      cwd: web,
      stdio: "inherit",
      env: {
        ...process.env,
        HEDGEROW_BIN: binary,
        HEDGEROW_PREVIEW: usesPreview ? "1" : "",
        HEDGEROW_URL: url,
        HEDGEROW_SERVER: server,
        HEDGEROW_PASSWORD: secrets.password,
        HEDGEROW_PROJECT_KEY: secrets.project,
        HEDGEROW_PERSONAL_KEY: secrets.personal,
      },
    },
  );
  status = await new Promise((resolve) => tests.on("exit", (code) => resolve(code ?? 1)));
  await stop();
} catch (error) {
  console.error(`e2e: ${error.message}`);
}
console.log(`e2e: ${Math.round((Date.now() - began) / 1_000)} s in all`);
process.exit(status);
