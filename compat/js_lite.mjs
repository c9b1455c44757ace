// A page's session with posthog-js-lite: `js_lite.mjs HOST`. Prints the SDK's results as JSON.
import { createRequire } from "node:module";

// The packages are installed in the current directory, not next to this file.
const { PostHog } = createRequire(`${process.cwd()}/`)("posthog-js-lite");
const sdk = new PostHog("phc_test", { host: process.argv[2], persistence: "memory", flushInterval: 100 });
const failures = [];
sdk.on("error", (error) => failures.push(String(error)));

const anonymous = sdk.getDistinctId();
sdk.capture("looked", { page: "/" });
sdk.identify("anna", { plan: "pro" });
sdk.group("company", "acme", { seats: 12 });
sdk.capture("bought", { amount: 9.5 });
await sdk.flush();
sdk.setPersonPropertiesForFlags({ plan: "pro" });
await sdk.reloadFeatureFlagsAsync();
const answer = {
    anonymous,
    flags: sdk.getFeatureFlags(),
    colour: sdk.getFeatureFlag("colour"),
    payload: sdk.getFeatureFlagPayload("colour"),
};
await sdk.shutdown();
console.log(JSON.stringify({ failures, answer }));
// Its timers would keep the process.
process.exit();
