/// Entries of the activity log as sentences: "Ann changed the name of dashboard Growth".

import type { Schemas } from "@/api/client";
import { userName } from "@/api/users";

export type Entry = Schemas["Entry"];

interface ScopeWords {
  /// As in "dashboard Growth".
  noun: string;
  /// In the list of filters.
  label: string;
  /// The page of the object, below the project; null where it has none.
  path: (entry: Pick<Entry, "item_id" | "detail">) => string | null;
}

const inSettings = (page: string) => () => `settings/${page}`;
const named = (page: string) => (entry: Pick<Entry, "detail">) =>
  entry.detail.name
    ? `${page}?search=${encodeURIComponent(JSON.stringify(entry.detail.name))}`
    : page;

/// What the log may be about, by the API's name.
export const SCOPES: Readonly<Record<string, ScopeWords>> = {
  Action: {
    noun: "action",
    label: "Actions",
    path: ({ item_id }) => `data-management/actions/${item_id}`,
  },
  Annotation: {
    noun: "annotation",
    label: "Annotations",
    path: () => "data-management/annotations",
  },
  Cohort: { noun: "cohort", label: "Cohorts", path: ({ item_id }) => `cohorts/${item_id}` },
  Dashboard: {
    noun: "dashboard",
    label: "Dashboards",
    path: ({ item_id }) => `dashboard/${item_id}`,
  },
  EventDefinition: {
    noun: "event",
    label: "Event definitions",
    path: named("data-management/events"),
  },
  FeatureFlag: {
    noun: "flag",
    label: "Flags",
    path: ({ item_id }) => `feature_flags/${item_id}`,
  },
  Group: {
    noun: "group",
    label: "Groups",
    path: ({ item_id }) => {
      const [index, ...key] = item_id.split(":");
      return key.length > 0 ? `groups/${index}/${encodeURIComponent(key.join(":"))}` : null;
    },
  },
  Insight: {
    noun: "insight",
    label: "Insights",
    path: ({ detail }) => (detail.short_id ? `insights/${detail.short_id}` : null),
  },
  InsightVariable: {
    noun: "variable",
    label: "Variables",
    path: named("data-management/variables"),
  },
  Organization: {
    noun: "organization",
    label: "Organization",
    path: inSettings("organization"),
  },
  OrganizationMembership: { noun: "member", label: "Members", path: inSettings("members") },
  Person: {
    noun: "person",
    label: "Persons",
    path: ({ detail }) => (detail.name ? `persons/${encodeURIComponent(detail.name)}` : null),
  },
  PersonalAPIKey: { noun: "personal API key", label: "Personal API keys", path: () => null },
  PropertyDefinition: {
    noun: "property",
    label: "Property definitions",
    path: named("data-management/properties"),
  },
  Role: { noun: "role", label: "Roles", path: inSettings("roles") },
  Team: { noun: "project", label: "Project", path: inSettings("project") },
};

/// Fields whose own name says little.
const FIELDS: Readonly<Record<string, string>> = {
  access_controls: "the access rules",
  access_control: "who may enter",
  access_token: "the public link",
  active: "the state",
  api_token: "the project API key",
  content: "the text",
  date_marker: "the date",
  dashboards: "the dashboards it is on",
  ensure_experience_continuity: "the persistence",
  filters: "the conditions",
  level: "the level",
  pinned: "the pin",
  is_shared: "the public link",
  pinned_at: "the pin",
  query: "the query",
  restriction_level: "who may edit",
  secret_api_token: "the secret key",
  secret_api_token_backup: "the former secret key",
  sharing: "the public link",
  steps: "the steps",
  tiles: "the tiles",
  value: "the key itself",
};

/// Change with every save, and say nothing.
const SILENT = new Set([
  "version",
  "last_modified_by",
  "last_modified_at",
  "updated_at",
  "updated_by",
  "deleted",
]);

export function fieldLabel(field: string | null | undefined): string {
  if (!field) return "value";
  return (FIELDS[field] ?? field.replaceAll("_", " ")).replace(/^the /, "");
}

export function shownChanges({ detail }: Pick<Entry, "detail">): Schemas["Change"][] {
  return detail.changes.filter(({ field }) => !SILENT.has(field ?? ""));
}

function fieldPhrase({ field, type }: Schemas["Change"]): string {
  // The name of a flag is its key; `name` describes it.
  if (type === "FeatureFlag" && field === "name") return "the description";
  return FIELDS[field ?? ""] ?? `the ${fieldLabel(field)}`;
}

const NAMED_MAX = 3;

function changedFields(entry: Pick<Entry, "detail">): string {
  const all = [...new Set(shownChanges(entry).map(fieldPhrase))];
  if (all.length === 0) return "saved";
  const named = all.slice(0, NAMED_MAX);
  if (all.length > NAMED_MAX) named.push(`${all.length - NAMED_MAX} more`);
  return `changed ${new Intl.ListFormat("en").format(named)} of`;
}

const VERBS: Readonly<Record<string, string>> = {
  created: "created",
  deleted: "deleted",
  restored: "restored",
  merged: "merged",
  merged_into: "merged another into",
  split: "split",
  exported: "exported",
};

export interface Sentence {
  actor: string;
  verb: string;
  noun: string;
  /// The object's name; empty where it has none.
  name: string;
  /// Its page, below the project; null where it is gone or has none.
  path: string | null;
}

export function actorOf({ user, is_system }: Pick<Entry, "user" | "is_system">): string {
  if (is_system) return "Hedgerow";
  return user ? userName(user) : "Somebody";
}

export function describeEntry(entry: Entry): Sentence {
  const words = SCOPES[entry.scope];
  const active = shownChanges(entry);
  const only = active.length === 1 ? active[0] : undefined;
  const isSwitch = entry.scope === "FeatureFlag" && only?.field === "active";
  const verb = isSwitch
    ? `switched ${only?.after === true ? "on" : "off"}`
    : (VERBS[entry.activity] ?? changedFields(entry));
  return {
    actor: actorOf(entry),
    verb,
    noun: words?.noun ?? entry.scope,
    name: entry.detail.name ?? "",
    path: entry.activity === "deleted" ? null : (words?.path(entry) ?? null),
  };
}
