import { queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import type { FilterType } from "./types";

export type EventDefinition = Schemas["EventDefinition"];
export type PropertyDefinition = Schemas["PropertyDefinition"];

const STALE_MS = 60_000;
const EVENTS_MAX = 200;
const PROPERTIES_MAX = 50;
const NAMES_MAX = 500;
/// What a page of flags holds at most.
const FLAGS_MAX = 1_000;

/// Events whose names contain the text, the most frequent first.
export function eventDefinitionsQuery(projectId: string, search: string) {
  return queryOptions({
    queryKey: ["event_definitions", projectId, { search }],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) => {
      const found = await call(
        api.GET("/api/projects/{project_id}/event_definitions", {
          params: {
            path: { project_id: projectId },
            query: {
              search: search || undefined,
              limit: EVENTS_MAX,
              ordering: "-last_seen_at",
              exclude_hidden: "true",
            },
          },
          signal,
        }),
      );
      // The API does not sort by volume.
      const results = [...found.results].sort((a, b) => b.volume_30_day - a.volume_30_day);
      return { ...found, results };
    },
  });
}

export interface PropertySearch {
  type: "event" | "person" | "group";
  search: string;
  groupIndex?: number;
  /// Only properties that were seen with these events.
  events?: readonly string[];
}

export function propertyDefinitionsQuery(projectId: string, options: PropertySearch) {
  const { type, search, groupIndex, events } = options;
  const named = type === "event" && events && events.length > 0;
  return queryOptions({
    queryKey: ["property_definitions", projectId, options],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/property_definitions", {
          params: {
            path: { project_id: projectId },
            query: {
              type,
              search: search || undefined,
              limit: PROPERTIES_MAX,
              exclude_hidden: "true",
              group_type_index: groupIndex === undefined ? undefined : String(groupIndex),
              event_names: named ? JSON.stringify(events) : undefined,
              filter_by_event_names: named ? "true" : undefined,
            },
          },
          signal,
        }),
      ),
  });
}

/// One definition by its exact name, for its type; null where there is none.
export function propertyDefinitionQuery(
  projectId: string,
  type: FilterType,
  key: string,
  groupIndex?: number,
) {
  const source = type === "person" || type === "group" ? type : "event";
  return queryOptions({
    queryKey: ["property_definition", projectId, source, key, groupIndex ?? null],
    staleTime: STALE_MS,
    enabled: (type === "event" || type === "person" || type === "group") && key !== "",
    queryFn: async ({ signal }) => {
      const found = await call(
        api.GET("/api/projects/{project_id}/property_definitions", {
          params: {
            path: { project_id: projectId },
            query: {
              type: source,
              properties: key,
              limit: 1,
              group_type_index: groupIndex === undefined ? undefined : String(groupIndex),
            },
          },
          signal,
        }),
      );
      return found.results.find(({ name }) => name === key) ?? null;
    },
  });
}

/// Values of a property that contain the text.
export function propertyValuesQuery(
  projectId: string,
  options: { type: FilterType; key: string; search: string; groupIndex?: number },
) {
  const { type, key, search, groupIndex } = options;
  const path = { project_id: projectId };
  const value = search || undefined;
  return queryOptions({
    queryKey: ["property_values", projectId, options],
    staleTime: STALE_MS,
    enabled: key !== "" && ["event", "feature", "person", "group"].includes(type),
    queryFn: async ({ signal }): Promise<{ name: string; count?: number }[]> => {
      if (type === "person") {
        const found = await call(
          api.GET("/api/projects/{project_id}/persons/values", {
            params: { path, query: { key, value } },
            signal,
          }),
        );
        return found.results.map(({ name, count }) => ({ name: String(name), count }));
      }
      if (type === "group") {
        return call(
          api.GET("/api/projects/{project_id}/groups/property_values", {
            params: { path, query: { key, value, group_type_index: String(groupIndex ?? 0) } },
            signal,
          }),
        );
      }
      const found = await call(
        api.GET("/api/projects/{project_id}/events/values", {
          params: { path, query: { key, value } },
          signal,
        }),
      );
      return found.results.map(({ name }) => ({ name: String(name) }));
    },
  });
}

export function actionsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["actions", projectId],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/actions", {
          params: { path: { project_id: projectId }, query: { limit: NAMES_MAX } },
          signal,
        }),
      ),
  });
}

export function cohortsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["cohorts", projectId, { limit: NAMES_MAX }],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/cohorts", {
          params: { path: { project_id: projectId }, query: { limit: NAMES_MAX } },
          signal,
        }),
      ),
  });
}

/// Feature flags by key, for conditions on other flags.
export function flagsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["feature_flags", projectId, { limit: FLAGS_MAX }],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags", {
          params: { path: { project_id: projectId }, query: { limit: FLAGS_MAX, order: "key" } },
          signal,
        }),
      ),
  });
}

export function groupTypesQuery(projectId: string) {
  return queryOptions({
    queryKey: ["groups_types", projectId],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/groups_types", {
          params: { path: { project_id: projectId } },
          signal,
        }),
      ),
  });
}

export function groupTypeName(type: Schemas["GroupType"], many = false): string {
  const one = type.name_singular ?? type.group_type;
  return many ? (type.name_plural ?? plural(one)) : one;
}

function plural(word: string): string {
  if (/[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}ies`;
  return /(s|x|ch|sh)$/.test(word) ? `${word}es` : `${word}s`;
}

/// Fields of sessions that filters and breakdowns take.
export const SESSION_FIELDS: readonly { key: string; label: string; numeric?: boolean }[] = [
  { key: "$session_duration", label: "Session duration (seconds)", numeric: true },
  { key: "$channel_type", label: "Channel type" },
  { key: "$entry_current_url", label: "Entry URL" },
  { key: "$entry_pathname", label: "Entry path" },
  { key: "$end_current_url", label: "End URL" },
  { key: "$end_pathname", label: "End path" },
  { key: "$entry_referring_domain", label: "Entry referring domain" },
  { key: "$entry_utm_source", label: "Entry UTM source" },
  { key: "$entry_utm_campaign", label: "Entry UTM campaign" },
  { key: "$entry_utm_medium", label: "Entry UTM medium" },
  { key: "$entry_utm_term", label: "Entry UTM term" },
  { key: "$entry_utm_content", label: "Entry UTM content" },
  { key: "$pageview_count", label: "Page views", numeric: true },
  { key: "$autocapture_count", label: "Autocaptures", numeric: true },
  { key: "$screen_count", label: "Screens", numeric: true },
  { key: "$is_bounce", label: "Is a bounce" },
];

/// The property of a condition on groups that compares their key.
export const GROUP_KEY = "$group_key";

/// Columns of events beside their properties.
export const METADATA_FIELDS: readonly { key: string; label: string }[] = [
  { key: "distinct_id", label: "Distinct id" },
  { key: "event", label: "Event name" },
  { key: "person_id", label: "Person id" },
  { key: "person_mode", label: "Person mode" },
  { key: "$session_id", label: "Session id" },
  { key: "$window_id", label: "Window id" },
];

/// Parts of the element of an autocaptured event.
export const ELEMENT_FIELDS: readonly { key: string; label: string }[] = [
  { key: "text", label: "Element text" },
  { key: "href", label: "Element link" },
  { key: "tag_name", label: "Element tag" },
  { key: "selector", label: "CSS selector" },
];
