// Script for posthog-node: `journey.mjs HOST JOURNEY`. Prints the SDK's results as JSON.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// The packages are installed in the current directory, not next to this file.
const { PostHog } = createRequire(`${process.cwd()}/`)("posthog-node");
const [host, journey] = process.argv.slice(2);
const uuid = "018dfa00-0000-7000-8000-000000000001";

function client(options) {
    const sdk = new PostHog("phc_test", { host, flushInterval: 100, ...options });
    sdk.failures = [];
    sdk.on("error", (error) => sdk.failures.push(String(error)));
    return sdk;
}

async function finish(sdk, answer = null) {
    await sdk.shutdown();
    console.log(JSON.stringify({ failures: sdk.failures, answer }));
}

async function capture(options) {
    const sdk = client(options);
    sdk.capture({ distinctId: "visitor", event: "looked", properties: { page: "/" } });
    sdk.identify({ distinctId: "anna", properties: { $anon_distinct_id: "visitor", $set: { plan: "free" } } });
    sdk.alias({ distinctId: "anna", alias: "laptop" });
    sdk.capture({ distinctId: "laptop", event: "bought", properties: { amount: 9.5 }, groups: { company: "acme" } });
    sdk.capture({ distinctId: "anna", event: "$set", properties: { $set: { plan: "paid" } } });
    sdk.capture({ distinctId: "anna", event: "$set", properties: { $set_once: { plan: "ignored", first: 1 } } });
    sdk.groupIdentify({ groupType: "company", groupKey: "acme", properties: { seats: 12 } });
    sdk.capture({ distinctId: "anna", event: "dated", uuid, timestamp: new Date("2024-02-29T12:30:00Z") });
    sdk.capture({ distinctId: "x", event: "nobody's", properties: { $process_person_profile: false } });
    await finish(sdk);
}

// Sends events while the server is restarted.
async function many() {
    const sdk = client({ flushAt: 5, fetchRetryCount: 30, fetchRetryDelay: 200 });
    const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    for (let number = 0; number < 300; number += 1) {
        sdk.capture({ distinctId: "d", event: "counted", properties: { number } });
        if (number % 50 === 49) {
            console.log(number);
            await lines.next();
        }
    }
    await finish(sdk);
    process.exit();
}

// Remote and local evaluation, which must agree.
async function flags() {
    const sdk = client();
    const about = { personProperties: { plan: "pro" } };
    const remote = await sdk.getAllFlags("anna", about);
    const called = await sdk.getFeatureFlag("colour", "anna", about);
    const payload = await sdk.getFeatureFlagPayload("colour", "anna", undefined, about);
    const local = client({ personalApiKey: "phx_test" });
    await local.waitForLocalEvaluationReady();
    const decided = await local.getAllFlags("anna", { onlyEvaluateLocally: true, ...about });
    await local.shutdown();
    await finish(sdk, { remote, local: decided, called, payload });
}

const journeys = {
    plain: () => capture({ disableCompression: true }),
    gzip: () => capture({}),
    "at once": () => capture({ flushAt: 1 }),
    many,
    flags,
};
await journeys[journey]();
