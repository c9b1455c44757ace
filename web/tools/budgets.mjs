// Fails when a page would load more bytes than its budget. Sizes are gzip, as `tools/build-web` packs
// them, of everything that the browser loads for the entry or a route: the file and all that it imports
// statically.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const KB = 1_000;
const BUDGETS = {
  entry: 190 * KB,
  route: 260 * KB,
  editor: 125 * KB,
  shared: 130 * KB,
  css: 25 * KB,
};

const dist = new URL("../dist/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(`.vite/${name}`, dist), "utf8"));
const manifest = read("manifest.json");
const shared = read("shared-manifest.json");
const sizes = new Map();
const size = (file) => {
  if (!sizes.has(file))
    sizes.set(file, gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length);
  return sizes.get(file);
};

/// The script files of a chunk and of all that it imports statically.
function closure(key, found = new Set(), chunks = manifest) {
  const chunk = chunks[key];
  if (!chunk || found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const next of chunk.imports ?? []) closure(next, found, chunks);
  return found;
}
const sum = (files) => [...files].reduce((total, file) => total + size(file), 0);

const rows = [];
const check = (name, bytes, limit) => rows.push({ name, bytes, limit, over: bytes > limit });

const entry = closure("index.html");
check("entry", sum(entry), BUDGETS.entry);
for (const [key, chunk] of Object.entries(manifest)) {
  if (!chunk.isDynamicEntry) continue;
  if (/[Ee]ditor/.test(chunk.name ?? "") && !/Page/.test(chunk.name)) {
    check(`editor ${chunk.name}`, size(chunk.file), BUDGETS.editor);
    continue;
  }
  if (!/Page\.tsx$/.test(key)) continue;
  check(`entry + ${chunk.name}`, sum(new Set([...entry, ...closure(key)])), BUDGETS.route);
}
// With all that it loads later: a shared page has paths as well.
const charts = Object.keys(shared).reduce((found, key) => closure(key, found, shared), new Set());
check("shared pages", sum([...charts].filter((file) => file.endsWith(".js"))), BUDGETS.shared);
const styles = readdirSync(new URL("assets/", dist)).filter((name) => name.endsWith(".css"));
check("css", sum(styles.map((name) => `assets/${name}`)), BUDGETS.css);

for (const { name, bytes, limit, over } of rows) {
  const text = `${(bytes / KB).toFixed(1).padStart(7)} of ${limit / KB} KB  ${name}`;
  console.log(over ? `${text}  OVER BUDGET` : text);
}
if (rows.some(({ over }) => over)) process.exit(1);
