import { randomBytes } from "node:crypto";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin, type ProxyOptions } from "vite";

const SERVER = process.env.HEDGEROW_URL ?? "http://127.0.0.1:8000";

/// A server that is away closes the connection; the proxy's own 500 would hide that.
const closeWithoutServer: ProxyOptions["configure"] = (proxy) => {
  proxy.on("error", (_error, request) => request.socket.destroy());
  // Nor does the proxy end a stream whose server ended.
  proxy.on("proxyRes", (answer, request) => {
    answer.on("close", () => {
      if (!answer.complete) request.socket.destroy();
    });
  });
};

/// The Host header stays: the server compares it with the origin before it accepts a write.
const proxy = Object.fromEntries(
  ["/api", "/_livez", "/capture", "/flags", "/static"].map((path) => [
    path,
    { target: SERVER, changeOrigin: false, configure: closeWithoutServer },
  ]),
);

/// `vite preview` answers as the server does: a fresh nonce, the theme of the cookie and the CSP. So
/// a policy violation shows before the binary is built.
function previewHtml(): Plugin {
  return {
    name: "hedgerow-preview-html",
    configurePreviewServer(server) {
      server.middlewares.use(async (request, response, next) => {
        const html = request.headers.accept?.includes("text/html");
        if (request.method !== "GET" || !html || request.url?.startsWith("/assets/")) return next();
        const { readFile } = await import("node:fs/promises");
        const nonce = randomBytes(16).toString("base64");
        const theme = /hedgerow_theme=(light|dark)/.exec(request.headers.cookie ?? "")?.[1];
        const page = await readFile(new URL("dist/index.html", import.meta.url), "utf8");
        response.setHeader("content-type", "text/html; charset=utf-8");
        response.setHeader("cache-control", "no-store");
        response.setHeader(
          "content-security-policy",
          `default-src 'none'; script-src 'self' 'nonce-${nonce}'; style-src-elem 'self' 'nonce-${nonce}'; ` +
            "style-src-attr 'none'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; " +
            "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        );
        response.end(
          page.replaceAll("__NONCE__", nonce).replaceAll("__THEME__", theme ?? "system"),
        );
      });
    },
  };
}

export default defineConfig({
  plugins: [react(), tailwindcss(), previewHtml()],
  resolve: { alias: { "@": new URL("src", import.meta.url).pathname } },
  html: { cspNonce: "__NONCE__" },
  server: { proxy },
  preview: { proxy, allowedHosts: ["hedgerow.lan"] },
  build: {
    manifest: true,
    target: "es2022",
    // A data: URL would need a wider policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          // One file for what every page needs: many small ones compress worse and wait for each other.
          groups: [
            { name: "react", test: /node_modules\/(react|react-dom|scheduler)\// },
            { name: "shell", tags: ["$initial"] },
          ],
        },
      },
    },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    restoreMocks: true,
  },
} as Parameters<typeof defineConfig>[0]);
