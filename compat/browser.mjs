// A website with posthog-js in Chromium: `browser.mjs HOST JOURNEY [SDK [PAGE]]`. SDK is `snippet` (the
// script that HOST serves) or an npm package in the current directory; PAGE is a file to show instead of
// the website. The last line of output is JSON: results of the SDK, console errors and failed
// requests.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [host, journey, sdk = "snippet", written] = process.argv.slice(2);
const packages = join(process.cwd(), "node_modules");
const { chromium } = createRequire(`${process.cwd()}/`)("playwright-core");

const TIMEOUT_MS = 60_000;
const POLL_MS = 50;
const AGENT =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
// posthog-js sends nothing for bots; the last two arguments prevent that detection. As an option of the
// browser context the user agent would not apply during page unload.
const ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-blink-features=AutomationControlled",
    `--user-agent=${AGENT}`,
];

// The snippet of PostHog's documentation: until the script has loaded, calls are queued in
// an array that the script replays. Runs in the page.
function snippet() {
    const queue = (window.posthog = []);
    queue._i = [];
    queue.people = [];
    for (const method of ["capture", "identify", "register", "group", "onFeatureFlags"]) {
        queue[method] = (...given) => queue.push([method, ...given]);
    }
    queue.init = (token, options) => {
        const script = document.createElement("script");
        script.crossOrigin = "anonymous";
        script.async = true;
        script.src = `${options.api_host}/static/array.js`;
        const first = document.getElementsByTagName("script")[0];
        first.parentNode.insertBefore(script, first);
        queue._i.push([token, options, "posthog"]);
    };
    queue.__SV = 1;
}

function page(path, options) {
    if (written) return readFileSync(written, "utf8");
    const start = `posthog.init("phc_test", ${JSON.stringify({ api_host: host, ...options })});
        posthog.capture("asked early", { page: "${path}" });`;
    const script = sdk === "snippet"
        ? `<script>(${snippet})();</script><script>${start}</script>`
        : `<script type="module">import posthog from "/posthog.js"; window.posthog = posthog; ${start}</script>`;
    return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shop ${path}</title>
        <link rel="icon" href="data:,">${script}</head>
        <body><div class="wrap big"><button id="buy" class="btn primary">Buy now</button></div></body></html>`;
}

// The website, of another origin than HOST.
function website(options) {
    let bundle = "";
    if (sdk !== "snippet") {
        const { main, module } = JSON.parse(readFileSync(join(packages, sdk, "package.json"), "utf8"));
        bundle = readFileSync(join(packages, sdk, module ?? main), "utf8");
    }
    const server = createServer((request, response) => {
        const { pathname } = new URL(request.url, "http://website");
        const script = pathname === "/posthog.js";
        response.setHeader("Content-Type", script ? "text/javascript" : "text/html");
        response.end(script ? bundle : page(pathname, options));
    });
    return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(right, what) {
    const deadline = Date.now() + TIMEOUT_MS;
    for (;;) {
        // The server may be down for a while.
        const found = await Promise.resolve().then(right).catch(() => false);
        if (found) return found;
        if (Date.now() > deadline) throw new Error(`still waiting for ${what}`);
        await wait(POLL_MS);
    }
}

// The events of a name, from the API.
async function listed(event) {
    const url = `${host}/api/projects/1/events/?limit=1000&event=${encodeURIComponent(event)}`;
    const answer = await fetch(url, { headers: { Authorization: "Bearer phx_test" } });
    return (await answer.json()).results;
}

const arrived = (event, count = 1) => until(async () => (await listed(event)).length >= count, event);

class Visitor {
    console = [];
    failed = [];
    // Failures that a server outage explains.
    interrupted = [];
    sent = new Set();
    waiting = 0;
    leaving = false;
    // Failed requests that the SDK has not retried yet.
    owed = 0;
    retries = 0;

    static async arrive(options = {}) {
        const visitor = (Visitor.last = new Visitor());
        visitor.server = await website(options);
        visitor.origin = `http://127.0.0.1:${visitor.server.address().port}`;
        visitor.browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ARGUMENTS });
        const context = await visitor.browser.newContext();
        visitor.tab = await context.newPage();
        visitor.watch(context);
        return visitor;
    }

    watch(context) {
        const awaited = (request) => request.url().startsWith(host) && request.resourceType() !== "ping";
        const away = (text) => /ERR_(CONNECTION|EMPTY_RESPONSE|SOCKET)/.test(text);
        const keep = (list, text) => (away(text) ? this.interrupted : list).push(text);
        context.on("console", (message) => {
            if (["error", "warning"].includes(message.type())) keep(this.console, message.text());
        });
        context.on("weberror", (thrown) => this.console.push(String(thrown.error())));
        context.on("request", (request) => {
            if (!awaited(request)) return;
            this.waiting += 1;
            const { pathname, searchParams } = new URL(request.url());
            const type = request.headers()["content-type"] ?? "-";
            const how = searchParams.get("compression") ?? "-";
            if (searchParams.has("retry_count")) {
                this.owed -= 1;
                this.retries += 1;
            }
            this.sent.add([request.method(), pathname, request.resourceType(), type, how].join(" "));
        });
        context.on("requestfinished", async (request) => {
            if (awaited(request)) this.waiting -= 1;
            const status = (await request.response())?.status() ?? 200;
            if (status >= 400) this.failed.push(`${status} ${request.method()} ${request.url()}`);
        });
        context.on("requestfailed", (request) => {
            if (awaited(request)) this.waiting -= 1;
            const why = request.failure()?.errorText ?? "";
            // The outcome of requests during page unload is unknown; the events show it.
            if (request.resourceType() === "ping" || (this.leaving && why.includes("ERR_ABORTED"))) return;
            if (new URL(request.url()).pathname.endsWith("/e/")) this.owed += 1;
            keep(this.failed, `${why} ${request.method()} ${request.url()}`);
        });
    }

    // Waits until no request is in flight and none follows.
    quiet() {
        let calm = 0;
        return until(() => (calm = this.waiting === 0 ? calm + 1 : 0) > 2, "answers");
    }

    async go(url) {
        await this.quiet();
        this.leaving = true;
        await this.tab.goto(url);
        this.leaving = false;
    }

    async open(path) {
        await this.go(this.origin + path);
        await this.tab.waitForFunction(() => window.posthog?.__loaded);
    }

    // The next events reach the server, but the response is lost.
    lose(path) {
        const lost = async (route) => {
            this.lost = (await route.fetch()).status();
            await route.abort("connectionreset");
        };
        return this.tab.route((url) => url.href.startsWith(host) && url.pathname.endsWith(path), lost, { times: 1 });
    }

    // Runs in the page.
    run(task, given) {
        return this.tab.evaluate(task, given);
    }

    leave() {
        return this.go("about:blank");
    }

    async finish(answer = null) {
        await this.browser.close();
        this.server.close();
        const { console: said, failed, interrupted } = this;
        answer = { ...answer, sent: [...this.sent].sort() };
        console.log(JSON.stringify({ answer, console: said, failed, interrupted }));
    }
}

async function visit(options) {
    const visitor = await Visitor.arrive(options);
    await visitor.open("/shop?utm_source=letter");
    const anonymous = await visitor.run(() => {
        posthog.capture("looked", { page: "/" });
        posthog.register({ theme: "dark" });
        posthog.register_once({ theme: "light", seen: 1 });
        posthog.capture("themed");
        posthog.unregister("theme");
        return posthog.get_distinct_id();
    });
    const known = await visitor.run(() => {
        posthog.identify("anna", { plan: "paid" }, { first: 1 });
        posthog.alias("laptop");
        posthog.group("company", "acme", { seats: 12 });
        posthog.capture("bought", { amount: 9.5 });
        return { id: posthog.get_distinct_id(), seen: posthog.get_property("seen") };
    });
    // Autocapture starts after the remote config has arrived.
    await visitor.quiet();
    await visitor.tab.getByRole("button", { name: "Buy now" }).click();
    await arrived("$autocapture");
    await visitor.open("/thanks");
    await arrived("$pageview", 2);
    await visitor.leave();
    await arrived("$pageleave", 2);
    await visitor.finish({ anonymous, known });
}

async function flags() {
    const visitor = await Visitor.arrive();
    const hears = (before) => visitor.tab.waitForFunction(
        (before) => heard.length > before, before, { timeout: TIMEOUT_MS },
    );
    const listen = async () => {
        await visitor.run(() => {
            window.heard = [];
            posthog.onFeatureFlags((names, variants) => heard.push({ names: [...names].sort(), variants }));
        });
        await hears(0);
    };
    // Flags that the page reads after the response to `task`.
    const after = async (task) => {
        await visitor.quiet();
        const before = await visitor.run(() => heard.length);
        await visitor.run(task);
        await hears(before);
        return visitor.run(read);
    };
    // Runs in the page. The SDK reports a flag call once.
    const read = () => ({
        colour: posthog.getFeatureFlag("colour"),
        again: posthog.getFeatureFlag("colour"),
        payload: posthog.getFeatureFlagPayload("colour"),
        everybody: posthog.isFeatureEnabled("everybody"),
        ...Object.fromEntries(["nobody", "pro", "company", "steady"].map(
            (key) => [key, posthog.getFeatureFlag(key, { send_event: false })],
        )),
    });
    await visitor.open("/shop");
    await listen();
    const anonymous = await after(() => posthog.reloadFeatureFlags());
    const heard = (await visitor.run(() => window.heard)).at(-1);
    await arrived("$pageview");
    const joined = await after(() => posthog.identify("anna", { plan: "pro" }));
    await arrived("$identify");
    const known = await after(() => posthog.setPersonPropertiesForFlags({ plan: "pro" }));
    const member = await after(() => posthog.group("company", "acme"));
    await visitor.run(() => posthog.capture("decided"));
    await arrived("decided");
    await visitor.open("/thanks");
    await listen();
    const later = await after(() => posthog.reloadFeatureFlags());
    await visitor.finish({ heard, anonymous, joined, known, member, later });
}

async function consent() {
    const visitor = await Visitor.arrive();
    // Runs in the page.
    const asked = () => [posthog.has_opted_in_capturing(), posthog.has_opted_out_capturing()];
    await visitor.open("/shop");
    const before = await visitor.run(asked);
    await arrived("$pageview");
    await arrived("asked early");
    await visitor.run(() => {
        posthog.opt_out_capturing();
        posthog.capture("hidden");
    });
    await visitor.tab.getByRole("button", { name: "Buy now" }).click();
    await visitor.open("/hidden");
    const out = await visitor.run(asked);
    await visitor.run(() => {
        posthog.opt_in_capturing();
        posthog.capture("shown");
    });
    const into = await visitor.run(asked);
    // Older versions queue events after a late consent until page unload.
    await visitor.leave();
    await arrived("shown");
    await visitor.finish({ before, out, into });
}

// The parent process kills and restarts the server on request, and confirms it.
async function interrupted() {
    const visitor = await Visitor.arrive();
    const input = createInterface({ input: process.stdin });
    const lines = input[Symbol.asyncIterator]();
    const tell = async (what) => {
        console.log(what);
        await lines.next();
    };
    let number = 0;
    const capture = async (count) => {
        for (const end = number + count; number < end; number += 1) {
            await visitor.run((number) => posthog.capture("counted", { number }), number);
        }
    };
    await visitor.open("/shop");
    await arrived("$pageview");
    await visitor.quiet();
    for (let round = 0; round < 2; round += 1) {
        await capture(10);
        await tell("kill");
        await capture(10);
        const failures = visitor.interrupted.length;
        await until(() => visitor.interrupted.length > failures, "a failure");
        await tell("start");
    }
    const settled = async () => {
        await arrived("counted", number);
        await until(() => visitor.owed === 0 && visitor.waiting === 0, "retries");
    };
    await settled();
    await visitor.lose("/e/");
    await capture(10);
    await settled();
    input.close();
    await visitor.finish({ counted: number, retries: visitor.retries, lost: visitor.lost });
}

// A given page, which captures one event.
async function show() {
    const visitor = await Visitor.arrive();
    await visitor.open("/");
    await visitor.leave();
    await arrived("signed up");
    await visitor.finish();
}

const journeys = {
    show,
    flags,
    consent,
    interrupted,
    visit: () => visit({}),
    uncompressed: () => visit({ disable_compression: true }),
    "at once": () => visit({ request_batching: false }),
    xhr: () => visit({ api_transport: "XHR" }),
};
try {
    await journeys[journey]();
} catch (error) {
    const { console: said, failed, interrupted } = Visitor.last ?? {};
    console.error(error, { said, failed, interrupted });
    process.exit(1);
}
