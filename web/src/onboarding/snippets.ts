import type { Sdk } from "./sdks";

export interface Snippet {
  /// What to do with the code.
  title: string;
  code: string;
}

export const SDK_LABELS: Record<Sdk, string> = {
  web: "Web page",
  npm: "JavaScript (npm)",
  python: "Python",
  node: "Node.js",
  rust: "Rust",
  curl: "curl",
};

export interface Connection {
  host: string;
  key: string;
}

/// The event that the snippets send.
export const FIRST_EVENT = "signed up";

/// What to paste, in order, with host and key filled in.
export function snippets(sdk: Sdk, { host, key }: Connection): Snippet[] {
  switch (sdk) {
    case "web":
      return [
        {
          title: "Paste this into the head of every page",
          code: `<script src="${host}/static/array.js"></script>
<script>
  posthog.init("${key}", { api_host: "${host}" })
</script>`,
        },
        {
          title:
            "Page views and clicks come by themselves. Send what matters to you where it happens",
          code: `posthog.capture("${FIRST_EVENT}", { plan: "free" })
posthog.identify("user-1", { email: "ann@example.com" })`,
        },
      ];
    case "npm":
      return [
        { title: "Install the SDK", code: "npm install posthog-js" },
        {
          title: "Start it once, then send events where they happen",
          code: `import posthog from "posthog-js"

posthog.init("${key}", { api_host: "${host}" })
posthog.capture("${FIRST_EVENT}", { plan: "free" })`,
        },
      ];
    case "python":
      return [
        { title: "Install the SDK", code: "pip install posthog" },
        {
          title: "Send an event",
          code: `from posthog import Posthog

posthog = Posthog("${key}", host="${host}")
posthog.capture("${FIRST_EVENT}", distinct_id="user-1", properties={"plan": "free"})
posthog.shutdown()  # at the end of the program: sends what waits`,
        },
      ];
    case "node":
      return [
        { title: "Install the SDK", code: "npm install posthog-node" },
        {
          title: "Send an event",
          code: `import { PostHog } from "posthog-node"

const posthog = new PostHog("${key}", { host: "${host}" })
posthog.capture({ distinctId: "user-1", event: "${FIRST_EVENT}", properties: { plan: "free" } })
await posthog.shutdown() // at the end of the program: sends what waits`,
        },
      ];
    case "rust":
      return [
        { title: "Add the SDK", code: "cargo add posthog-rs\ncargo add tokio --features full" },
        {
          title: "Send an event",
          code: `#[tokio::main]
async fn main() {
    let posthog = posthog_rs::client(("${key}", "${host}")).await;
    posthog.capture(posthog_rs::Event::new("${FIRST_EVENT}", "user-1"));
    posthog.shutdown().await;
}`,
        },
      ];
    case "curl":
      return [
        {
          title: "Send an event from a terminal",
          code: `curl ${host}/capture/ \\
  -H 'Content-Type: application/json' \\
  -d '{"api_key":"${key}","event":"${FIRST_EVENT}","distinct_id":"user-1","properties":{"plan":"free"}}'`,
        },
      ];
  }
}
