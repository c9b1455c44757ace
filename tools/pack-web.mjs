// Packs Vite's output in web/dist to assets/web: the page as app.html, its manifest, and the hashed
// files, each also compressed, since the server does not compress them for each request.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const built = new URL("../web/dist/", import.meta.url);
const packed = new URL("../assets/web/", import.meta.url);
// A file that shrinks less, such as a font or a picture, is served as it is.
const RATIO_MAX = 0.95;

const page = readFileSync(new URL("index.html", built), "utf8");
for (const placeholder of ["__NONCE__", "__THEME__"]) {
    if (!page.includes(placeholder)) {
        throw new Error(`index.html has no ${placeholder}, which the server replaces`);
    }
}
rmSync(new URL("assets/", packed), { recursive: true, force: true });
mkdirSync(new URL("assets/", packed), { recursive: true });
writeFileSync(new URL("app.html", packed), page);
copyFileSync(new URL(".vite/manifest.json", built), new URL("manifest.json", packed));

// The script and the style of shared pages, one a line.
const shared = JSON.parse(readFileSync(new URL(".vite/shared-manifest.json", built), "utf8"));
const { file, css } = Object.values(shared).find(({ isEntry }) => isEntry);
const names = [file, ...css].map((path) => path.replace("assets/", ""));
if (names.length !== 2) throw new Error(`shared pages load one script and one style, not ${names}`);
writeFileSync(new URL("shared", packed), `${names.join("\n")}\n`);

let bytes = 0;
const files = readdirSync(new URL("assets/", built)).filter((name) => !name.endsWith(".map"));
for (const name of files) {
    const file = readFileSync(new URL(`assets/${name}`, built));
    const gzip = gzipSync(file, { level: 9 });
    const brotli = brotliCompressSync(file, {
        params: { [constants.BROTLI_PARAM_SIZE_HINT]: file.length },
    });
    writeFileSync(new URL(`assets/${name}`, packed), file);
    if (gzip.length <= file.length * RATIO_MAX) {
        writeFileSync(new URL(`assets/${name}.gz`, packed), gzip);
        writeFileSync(new URL(`assets/${name}.br`, packed), brotli);
    }
    bytes += file.length;
}
console.log(`packed ${files.length} files of the web interface, ${Math.round(bytes / 1024)} KiB`);
