import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const source = (path: string) => new URL(path, import.meta.url).pathname;

/// Shared and embedded pages, after the interface itself into the same directory. A build of their own
/// shares no chunk with it, so that their readers load only what charts need.
export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: [
      { find: "@/ui/Tooltip", replacement: source("src/shared/Tooltip.tsx") },
      { find: "@", replacement: source("src") },
    ],
  },
  build: {
    emptyOutDir: false,
    manifest: ".vite/shared-manifest.json",
    target: "es2022",
    assetsInlineLimit: 0,
    copyPublicDir: false,
    modulePreload: false,
    rolldownOptions: { input: { shared: "src/shared/main.tsx" } },
  },
});
