// An agent's session with PostHog's agent toolkit: `agent_toolkit.mjs HOST`. Prints what its tools return, by
// the name of the step, as JSON; a tool that fails returns `{ failed }`.
import { createRequire } from "node:module";

// The packages are installed in the current directory, not next to this file.
const { PostHogAgentToolkit } = createRequire(`${process.cwd()}/`)(
    "@posthog/agent-toolkit/integrations/ai-sdk",
);
const toolkit = new PostHogAgentToolkit({
    posthogPersonalApiKey: "phx_test",
    posthogApiBaseUrl: process.argv[2],
});
const tools = await toolkit.getTools();
const steps = { tools: Object.keys(tools) };

async function run(name, input = {}, step = name) {
    try {
        const { text } = (await tools[name].execute(input, {})).content[0];
        steps[step] = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
    } catch (error) {
        steps[step] = { failed: String(error) };
    }
    return steps[step];
}

const sql = (query) => ({ kind: "DataVisualizationNode", source: { kind: "HogQLQuery", query } });
const viz = (source) => ({ kind: "InsightVizNode", source: { dateRange: { date_from: "-7d", date_to: null }, ...source } });
const node = (event) => ({ kind: "EventsNode", event, custom_name: event, math: "dau" });

await run("organizations-get");
await run("organization-details-get");
await run("projects-get");
await run("switch-project", { projectId: 1 });
await run("event-definitions-list");
await run("properties-list", { type: "event", eventName: "bought" });

// "How many people bought something last week?"
const statement = "select count(distinct person_id) from events where event = 'bought' and timestamp > now() - interval 7 day";
await run("query-run", { query: sql(statement) }, "buyers");
await run("query-run", { query: viz({ kind: "TrendsQuery", interval: "week", series: [node("bought")] }) }, "trend");
const funnel = { kind: "FunnelsQuery", series: [node("looked"), node("bought")] };
await run("query-run", { query: viz(funnel) }, "funnel");

const insight = await run("insight-create-from-query", {
    data: { name: "Buyers", query: sql(statement), description: "", favorited: false, tags: [] },
});
const insightId = String(insight.id);
await run("insight-query", { insightId });
await run("insight-update", { insightId, data: { name: "Buyers this week" } });
await run("insights-get-all", { data: { limit: 10 } });
const dashboard = await run("dashboard-create", { data: { name: "Board", description: "", pinned: false, tags: [] } });
await run("add-insight-to-dashboard", { data: { insightId, dashboardId: dashboard.id } });
await run("dashboard-update", { dashboardId: dashboard.id, data: { name: "Weekly" } });
await run("dashboard-get", { dashboardId: dashboard.id });
await run("dashboards-get-all", { data: { limit: 10 } });
await run("dashboard-delete", { dashboardId: dashboard.id });
await run("insight-delete", { insightId });

const property = { key: "email", type: "person", operator: "icontains", value: "@shop.example" };
await run("create-feature-flag", {
    key: "by-agent",
    name: "Made by an agent",
    description: "",
    filters: { groups: [{ properties: [property], rollout_percentage: 50 }] },
    active: true,
    tags: [],
});
await run("update-feature-flag", { flagKey: "by-agent", data: { active: false } });
await run("feature-flag-get-definition", { flagKey: "by-agent" });
await run("feature-flag-get-all");
await run("delete-feature-flag", { flagKey: "by-agent" });
await run("feature-flag-get-all", {}, "flags left");

// What does not exist here.
await run("surveys-get-all");
await run("experiment-get-all");
await run("list-errors");
console.log(JSON.stringify(steps));
