// Starts and ends the programs that the journeys need.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const WEB = fileURLToPath(new URL("..", import.meta.url));
export const SECRETS = {
  password: "journey-password-1",
  project: "phc_journey",
  personal: "phx_journey",
};
const START_MS_MAX = 60_000;

/**
 * Starts a program and resolves with it and the first match of a pattern in its output.
 * @param {string} command
 * @param {string[]} args
 * @param {RegExp} pattern
 * @param {Record<string, string>} [env]
 * @returns {Promise<{ child: import("node:child_process").ChildProcess, match: string }>}
 */
function start(command, args, pattern, env = {}) {
  const child = spawn(command, args, { cwd: WEB, env: { ...process.env, ...env } });
  return new Promise((resolve, reject) => {
    let output = "";
    const fail = (reason) => {
      child.kill();
      reject(new Error(`${command} ${reason}:\n${output}`));
    };
    const timer = setTimeout(() => fail("did not start"), START_MS_MAX);
    const ended = (code) => fail(`ended with ${code}`);
    const read = (chunk) => {
      output += chunk;
      const match = pattern.exec(output);
      if (!match) return;
      clearTimeout(timer);
      child.off("exit", ended);
      for (const stream of [child.stdout, child.stderr]) stream.off("data", read).resume();
      resolve({ child, match: match[1] });
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", ended);
  });
}

/**
 * Starts the server.
 * @param {string} binary
 * @param {string} data
 * @param {string} listen
 */
export async function startServer(binary, data, listen) {
  const { child, match } = await start(
    binary,
    [
      "serve",
      ...["--data-dir", data, "--listen", listen, "--log-level", "warn"],
      ...["--admin-password", SECRETS.password],
      ...["--project-api-key", SECRETS.project, "--personal-api-key", SECRETS.personal],
    ],
    /listening on (http:\/\/\S+)/,
  );
  return { child, url: match };
}

/**
 * Starts `vite preview`, which serves dist/ under the server's policy.
 * @param {string} server
 */
export async function startPreview(server) {
  const { child, match } = await start(
    join(WEB, "node_modules/.bin/vite"),
    ["preview", "--host", "127.0.0.1", "--port", "0"],
    /(http:\/\/127\.0\.0\.1:\d+)/,
    { HEDGEROW_URL: server, NO_COLOR: "1", FORCE_COLOR: "0" },
  );
  return { child, url: match };
}

/**
 * @param {import("node:child_process").ChildProcess} child
 * @param {NodeJS.Signals} [signal]
 */
export async function stop(child, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  child.kill(signal);
  await ended;
}
