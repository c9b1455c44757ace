/// Scopes of personal API keys: `object:read`, `object:write` (which reads too), or `*` for all.

/// The key of the query that lists them.
export const keysKey = ["personal_api_keys"];

export type Access = "none" | "read" | "write";

/// What a key of this server can be limited to. PostHog knows more; keys may have those as well.
export const OBJECTS: readonly { object: string; label: string }[] = [
  { object: "action", label: "Actions" },
  { object: "activity_log", label: "Activity log" },
  { object: "annotation", label: "Annotations" },
  { object: "cohort", label: "Cohorts" },
  { object: "dashboard", label: "Dashboards" },
  { object: "event_definition", label: "Event definitions" },
  { object: "feature_flag", label: "Feature flags" },
  { object: "group", label: "Groups" },
  { object: "insight", label: "Insights" },
  { object: "organization", label: "Organization and roles" },
  { object: "organization_member", label: "Members" },
  { object: "person", label: "Persons" },
  { object: "project", label: "Project" },
  { object: "property_definition", label: "Property definitions" },
  { object: "query", label: "Queries and events" },
  { object: "sharing_configuration", label: "Public links" },
  { object: "user", label: "Your account and keys" },
];

export type Preset = "all" | "read" | "chosen";

export function presetOf(scopes: readonly string[]): Preset {
  if (scopes.includes("*")) return "all";
  const reads = OBJECTS.map(({ object }) => `${object}:read`);
  const same = scopes.length === reads.length && reads.every((scope) => scopes.includes(scope));
  return same ? "read" : "chosen";
}

export function readScopes(): string[] {
  return OBJECTS.map(({ object }) => `${object}:read`);
}

export function accessTo(scopes: readonly string[], object: string): Access {
  if (scopes.includes("*") || scopes.includes(`${object}:write`)) return "write";
  return scopes.includes(`${object}:read`) ? "read" : "none";
}

/// Scopes of objects that this server does not have stay.
export function withAccess(scopes: readonly string[], object: string, access: Access): string[] {
  const others = scopes.filter((scope) => scope !== "*" && !scope.startsWith(`${object}:`));
  return access === "none" ? others : [...others, `${object}:${access}`];
}

/// As in "Reads dashboards, insights; changes flags".
export function describeScopes(scopes: readonly string[]): string {
  if (scopes.includes("*")) return "Everything";
  const preset = presetOf(scopes);
  if (preset === "read") return "Reads everything";
  const words = (access: Access) =>
    scopes
      .filter((scope) => scope.endsWith(`:${access}`))
      .map((scope) => {
        const object = scope.split(":")[0] ?? "";
        return (
          OBJECTS.find((one) => one.object === object)?.label.toLowerCase() ??
          object.replaceAll("_", " ")
        );
      });
  const [reads, writes] = [words("read"), words("write")];
  const parts = [
    reads.length > 0 && `reads ${reads.join(", ")}`,
    writes.length > 0 && `changes ${writes.join(", ")}`,
  ].filter((part) => part !== false);
  const text = parts.join("; ");
  return text ? text.charAt(0).toUpperCase() + text.slice(1) : "Nothing";
}
