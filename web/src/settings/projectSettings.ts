/// Settings of a project that need no editor of their own.

import type { Project } from "@/api/me";
import type { ProjectChange } from "./useProjectChange";

interface Shared {
  key: keyof ProjectChange & keyof Project;
  label: string;
  hint?: string;
}

export type SimpleSetting =
  | (Shared & { kind: "switch" })
  /// One text a line.
  | (Shared & { kind: "lines"; placeholder?: string })
  | (Shared & { kind: "text" })
  | (Shared & { kind: "choice"; options: readonly { value: string; label: string }[] });

export interface SettingsGroup {
  title: string;
  description?: string;
  settings: readonly SimpleSetting[];
}

export const GROUPS: readonly SettingsGroup[] = [
  {
    title: "Ingestion",
    description: "How events are stored from now on.",
    settings: [
      {
        key: "anonymize_ips",
        kind: "switch",
        label: "Discard IP addresses",
        hint: "After the location was looked up.",
      },
      {
        key: "person_processing_opt_out",
        kind: "switch",
        label: "Store events without persons",
        hint: "No person is made or changed by an event.",
      },
    ],
  },
  {
    title: "Browser SDK",
    description: "The SDK reads these when a page loads.",
    settings: [
      {
        key: "autocapture_opt_out",
        kind: "switch",
        label: "Turn autocapture off",
        hint: "Clicks, changes and form submissions are not captured automatically.",
      },
      {
        key: "autocapture_exceptions_opt_in",
        kind: "switch",
        label: "Capture exceptions",
      },
      {
        key: "autocapture_web_vitals_opt_in",
        kind: "switch",
        label: "Capture web vitals",
      },
      { key: "heatmaps_opt_in", kind: "switch", label: "Capture pointer positions for heatmaps" },
    ],
  },
  {
    title: "Settings for PostHog clients",
    description:
      "Stored and answered by the API for PostHog's tools; Hedgerow itself does not use them.",
    settings: [
      { key: "app_urls", kind: "lines", label: "Your sites", placeholder: "https://example.com" },
      { key: "recording_domains", kind: "lines", label: "Sites that may be recorded" },
      { key: "data_attributes", kind: "lines", label: "Attributes that name elements" },
      { key: "live_events_columns", kind: "lines", label: "Columns of the live list" },
      { key: "base_currency", kind: "text", label: "Currency", hint: "A code such as EUR." },
      {
        key: "cookieless_server_hash_mode",
        kind: "choice",
        label: "Cookieless mode of the SDK",
        options: [
          { value: "", label: "Not set" },
          { value: "0", label: "Off" },
          { value: "1", label: "Stateless" },
          { value: "2", label: "Stateful" },
        ],
      },
      {
        key: "flags_persistence_default",
        kind: "switch",
        label: "New flags persist across log-in",
      },
      { key: "session_recording_opt_in", kind: "switch", label: "Session recording" },
      { key: "capture_console_log_opt_in", kind: "switch", label: "Console logs of recordings" },
      { key: "capture_performance_opt_in", kind: "switch", label: "Network of recordings" },
      { key: "surveys_opt_in", kind: "switch", label: "Surveys" },
      { key: "inject_web_apps", kind: "switch", label: "Site apps" },
      {
        key: "completed_snippet_onboarding",
        kind: "switch",
        label: "Onboarding is done",
      },
    ],
  },
];

/// Settings that other places edit, or that only programs write, each with the reason.
export const ELSEWHERE: Readonly<Record<string, string>> = {
  name: "form",
  timezone: "form",
  product_description: "form",
  week_start_day: "form",
  primary_dashboard: "form",
  test_account_filters: "its own editor",
  test_account_filters_default_checked: "its own editor",
  path_cleaning_filters: "its own editor",
  person_display_name_properties: "its own editor",
  drop_events_older_than_seconds: "its own editor",
  access_control: "the access page",
  is_demo: "written by the demo",
  correlation_config: "JSON of PostHog's correlation analysis, which does not exist here",
  extra_settings: "JSON of clients",
  modifiers: "JSON of clients",
  has_completed_onboarding_for: "JSON of clients",
};

export function linesValue(value: unknown): string {
  return Array.isArray(value) ? value.join("\n") : "";
}

export function readLines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}
