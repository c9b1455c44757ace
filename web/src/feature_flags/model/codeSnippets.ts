/// How code asks for a flag.

import { type FlagDraft, fittingPayloads, kindOf, variantsOf } from "./draft";

export const CODE_SDKS = ["web", "react", "node", "python", "rust", "curl"] as const;
export type CodeSdk = (typeof CODE_SDKS)[number];

export const CODE_LABELS: Record<CodeSdk, string> = {
  web: "JavaScript",
  react: "React",
  node: "Node.js",
  python: "Python",
  rust: "Rust",
  curl: "curl",
};

interface CodeOf {
  host: string;
  /// The project's public key.
  projectKey: string;
  projectId: string;
  flag: FlagDraft;
}

export interface FlagSnippet {
  title: string;
  code: string;
}

/// The first variant that is no control, which code asks for.
function askedVariant(flag: FlagDraft): string | null {
  const keys = variantsOf(flag.filters).map(({ key }) => key);
  return keys.find((key) => key !== "control") ?? keys[0] ?? null;
}

export function flagSnippets(sdk: CodeSdk, options: CodeOf): FlagSnippet[] {
  const { host, projectKey, projectId, flag } = options;
  const key = flag.key || "my-flag";
  const variant = askedVariant(flag);
  const kind = kindOf(flag);
  const hasPayload =
    kind === "remote" || Object.keys(fittingPayloads(flag.filters) ?? {}).length > 0;
  const found: FlagSnippet[] = [];
  const add = (title: string, code: string) => found.push({ title, code });
  const remote = "Read the configuration";
  switch (sdk) {
    case "web":
      if (kind !== "remote") {
        add(
          "Ask for the value once flags are loaded",
          `posthog.init("${projectKey}", { api_host: "${host}" })

posthog.onFeatureFlags(() => {
  if (${variant ? `posthog.getFeatureFlag("${key}") === "${variant}"` : `posthog.isFeatureEnabled("${key}")`}) {
    // …
  }
})`,
        );
      }
      if (hasPayload) {
        add(
          kind === "remote" ? remote : "Read its payload",
          `posthog.onFeatureFlags(() => {
  const payload = posthog.getFeatureFlagPayload("${key}")
})`,
        );
      }
      break;
    case "react":
      if (kind !== "remote") {
        add(
          "Ask for the value in a component",
          variant
            ? `import { useFeatureFlagVariantKey } from "posthog-js/react"

const variant = useFeatureFlagVariantKey("${key}")
if (variant === "${variant}") {
  // …
}`
            : `import { useFeatureFlagEnabled } from "posthog-js/react"

const enabled = useFeatureFlagEnabled("${key}")`,
        );
      }
      if (hasPayload) {
        add(
          kind === "remote" ? remote : "Read its payload",
          `import { useFeatureFlagPayload } from "posthog-js/react"

const payload = useFeatureFlagPayload("${key}")`,
        );
      }
      break;
    case "node":
      add(
        kind === "remote" ? remote : "Ask for the value",
        kind === "remote"
          ? `import { PostHog } from "posthog-node"

const posthog = new PostHog("${projectKey}", {
  host: "${host}",
  personalApiKey: process.env.POSTHOG_PERSONAL_API_KEY,
})
const payload = await posthog.getRemoteConfigPayload("${key}")`
          : `import { PostHog } from "posthog-node"

const posthog = new PostHog("${projectKey}", { host: "${host}" })
const value = await posthog.getFeatureFlag("${key}", "user-1")
if (value${variant ? ` === "${variant}"` : ""}) {
  // …
}`,
      );
      if (kind !== "remote" && hasPayload) {
        add(
          "Read its payload",
          `const payload = await posthog.getFeatureFlagPayload("${key}", "user-1")`,
        );
      }
      if (kind !== "remote") {
        add(
          "Evaluate without a request each time: definitions are read every 30 seconds",
          `const posthog = new PostHog("${projectKey}", {
  host: "${host}",
  personalApiKey: process.env.POSTHOG_PERSONAL_API_KEY, // with feature_flag:read
})
const value = await posthog.getFeatureFlag("${key}", "user-1", {
  personProperties: { plan: "pro" },
})`,
        );
      }
      break;
    case "python":
      if (kind === "remote") {
        add(
          remote,
          `import os
from posthog import Posthog

posthog = Posthog("${projectKey}", host="${host}",
                  personal_api_key=os.environ["POSTHOG_PERSONAL_API_KEY"])
payload = posthog.get_remote_config_payload("${key}")`,
        );
        break;
      }
      add(
        "Ask for the value",
        `from posthog import Posthog

posthog = Posthog("${projectKey}", host="${host}")
if posthog.get_feature_flag("${key}", "user-1")${variant ? ` == "${variant}"` : ""}:
    ...`,
      );
      if (hasPayload) {
        add("Read its payload", `payload = posthog.get_feature_flag_payload("${key}", "user-1")`);
      }
      add(
        "Evaluate without a request each time: definitions are read every 30 seconds",
        `import os
from posthog import Posthog

posthog = Posthog("${projectKey}", host="${host}",
                  personal_api_key=os.environ["POSTHOG_PERSONAL_API_KEY"])  # with feature_flag:read
value = posthog.get_feature_flag("${key}", "user-1", person_properties={"plan": "pro"})`,
      );
      break;
    case "rust":
      add(
        "Ask for the value",
        `let posthog = posthog_rs::client(("${projectKey}", "${host}")).await;
let value = posthog
    .get_feature_flag("${key}".to_string(), "user-1".to_string(), None, None, None)
    .await?;`,
      );
      break;
    case "curl":
      if (kind !== "remote" || !flag.has_encrypted_payloads) {
        add(
          "Ask for the value",
          `curl '${host}/flags?v=2' \\
  -H 'Content-Type: application/json' \\
  -d '{"api_key":"${projectKey}","distinct_id":"user-1","flag_keys_to_evaluate":["${key}"]}'`,
        );
      }
      if (kind === "remote") {
        add(
          "Read the configuration with a personal key",
          `curl '${host}/api/projects/${projectId}/feature_flags/${key}/remote_config?token=${projectKey}' \\
  -H "Authorization: Bearer $POSTHOG_PERSONAL_API_KEY"`,
        );
      } else {
        add(
          "Read the definitions for local evaluation with a personal key",
          `curl '${host}/flags/definitions?token=${projectKey}&send_cohorts' \\
  -H "Authorization: Bearer $POSTHOG_PERSONAL_API_KEY"`,
        );
      }
      break;
  }
  return found;
}
