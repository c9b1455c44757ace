// Starts what the journeys and the screenshots need: a server with an empty data directory on a free
// port. HEDGEROW_BIN names the binary. A binary without the web interface gets `vite preview` in front,
// which serves dist/ under the same policy; so does any with HEDGEROW_PREVIEW=1, to try the sources
// without building the server.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as programs from "../e2e/programs.mjs";

export const web = programs.WEB;
export const secrets = programs.SECRETS;

/// `server` is the server's own address, `url` that of its web interface.
export async function startServer() {
  const target = process.env.CARGO_TARGET_DIR ?? join(web, "../target");
  const binary = process.env.HEDGEROW_BIN ?? join(target, "debug/hedgerow");
  if (!existsSync(binary)) {
    throw new Error(`${binary} is missing: run cargo build -p server, or set HEDGEROW_BIN`);
  }
  const data = mkdtempSync(join(tmpdir(), "hedgerow-e2e-"));
  const children = [];
  const started = ({ child, url }) => {
    children.push(child);
    return url;
  };
  const stop = async () => {
    await Promise.all(children.map((child) => programs.stop(child)));
    rmSync(data, { recursive: true, force: true });
  };
  try {
    const server = started(await programs.startServer(binary, data, "127.0.0.1:0"));
    const page = await fetch(`${server}/login`, { headers: { accept: "text/html" } });
    const usesPreview = process.env.HEDGEROW_PREVIEW || !(await page.text()).includes("csp-nonce");
    const url = usesPreview ? started(await programs.startPreview(server)) : server;
    return { binary, usesPreview, server, url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
