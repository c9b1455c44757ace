/// Words for what the status of the instance counts.

import type { Schemas } from "@/api/client";
import { count, exact } from "@/ui/format";

const DROPS: Readonly<Record<string, string>> = {
  not_an_object: "An entry of a batch was not an object",
  missing_name: "The event had no name",
  missing_distinct_id: "The event had no distinct id",
  invalid_uuid: "The event's uuid was malformed",
  invalid_properties: "The properties were not an object",
  too_large: "The event was too large",
  name_too_long: "The event's name was too long",
  distinct_id_too_long: "The distinct id was too long",
  invalid_timestamp: "The timestamp could not be read",
  invalid_options: "The options could not be read",
  performance_event: "Performance events are not stored",
};

export function dropText(reason: string): string {
  return DROPS[reason] ?? reason.replaceAll("_", " ");
}

type Status = Schemas["InstanceStatus"];

/// As in "Full in 40 days at 2 GB a day".
export function forecastText(
  { full_in_days: days, growth_bytes_per_day: growth }: Status["disk"],
  bytes: (value: number) => string,
): string {
  if (growth === null || growth === undefined) {
    return "The forecast begins an hour after the start.";
  }
  if (growth === 0) return "The stored events do not grow.";
  const pace = `${bytes(growth)} a day`;
  if (days === null || days === undefined) return `Grows by ${pace}.`;
  if (days < 1) return `Full within a day at ${pace}.`;
  if (days > 3_650) return `Full in more than ten years at ${pace}.`;
  return `Full in ${count(Math.floor(days), "day")} at ${pace}.`;
}

export function lagText({ records, replay_remaining: replay }: Status["lag"]): string {
  if (replay > 0) return `${exact(replay)} records of the journal are read again after the start`;
  return records === 0 ? "Everything received is applied" : `${count(records, "record")} wait`;
}

export interface SettingsSection {
  heading: string;
  settings: Schemas["InstanceSetting"][];
}

/// The settings whose key, value or help has all words, below their headings.
export function settingsBySection(
  settings: readonly Schemas["InstanceSetting"][],
  search: string,
): SettingsSection[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const sections: SettingsSection[] = [];
  for (const setting of settings) {
    const { key, value, help, origin, heading } = setting;
    const text = `${key} ${value ?? ""} ${help} ${origin}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const section = sections.find((one) => one.heading === heading);
    if (section) section.settings.push(setting);
    else sections.push({ heading, settings: [setting] });
  }
  return sections;
}
