import type { Schemas } from "@/api/client";

export type Warning = Schemas["WarningRow"];

export interface Reason {
  title: string;
  /// What to do about it.
  remedy: string;
  /// Whether the whole event was refused; otherwise a part of it was changed or left out.
  refused: boolean;
}

const REASONS: Record<Warning["type"], Reason> = {
  missing_event_name: {
    title: "The event has no name",
    remedy: "Pass a name that is not empty to capture().",
    refused: true,
  },
  skipping_event_invalid_distinct_id: {
    title: "The event has no valid distinct id",
    remedy: "Pass an id of the person, such as your user id; not an empty text, null or 0.",
    refused: true,
  },
  distinct_id_truncated: {
    title: "The distinct id was cut to its maximum length",
    remedy: "Use a shorter id: two long ones may become the same.",
    refused: false,
  },
  skipping_event_invalid_uuid: {
    title: "The event's uuid is malformed",
    remedy: "Leave uuid out, or send a valid UUID.",
    refused: true,
  },
  invalid_event_properties: {
    title: "The properties are not an object",
    remedy: "Send properties as a JSON object.",
    refused: true,
  },
  invalid_event: {
    title: "An entry of a batch is not an event",
    remedy: "Each entry of batch must be a JSON object.",
    refused: true,
  },
  message_size_too_large: {
    title: "The event is too large",
    remedy: "Send less in its properties.",
    refused: true,
  },
  ignored_invalid_timestamp: {
    title: "The timestamp could not be read",
    remedy: "The time of arrival was stored instead. Send ISO 8601.",
    refused: false,
  },
  event_timestamp_in_future: {
    title: "The timestamp is in the future",
    remedy: "The time of arrival was stored instead. Check the sender's clock.",
    refused: false,
  },
  event_dropped_too_old: {
    title: "The event is older than the project accepts",
    remedy: "Change the project's limit of age, or send events sooner.",
    refused: true,
  },
  cookieless_disabled: {
    title: "Cookieless events are off in this project",
    remedy: "Turn on the cookieless mode in the project's settings, or off in the SDK.",
    refused: true,
  },
  replay_not_stored: {
    title: "Session recordings are not stored",
    remedy: "Turn off recording in the SDK: disable_session_recording: true.",
    refused: true,
  },
  performance_event_not_stored: {
    title: "Performance events are not stored",
    remedy: "Turn off performance capture in the SDK.",
    refused: true,
  },
  client_ingestion_warning: {
    title: "The SDK reports a problem",
    remedy: "Its message is in the sample.",
    refused: false,
  },
  set_on_exception: {
    title: "Person properties on an exception were left out",
    remedy: "Set person properties with identify() or another event.",
    refused: false,
  },
  invalid_process_person_profile: {
    title: "$process_person_profile is neither true nor false",
    remedy: "Send a boolean; it was read as true.",
    refused: false,
  },
  invalid_event_when_process_person_profile_is_false: {
    title: "The event needs a person, but persons are switched off for it",
    remedy: "Leave $process_person_profile: false out for identify, alias and group calls.",
    refused: true,
  },
  group_key_too_long: {
    title: "The group's key is too long",
    remedy: "Use a key of at most 400 characters.",
    refused: true,
  },
  group_set_invalid: {
    title: "The group's properties are not an object",
    remedy: "Send $group_set as a JSON object.",
    refused: true,
  },
  cannot_merge_with_illegal_distinct_id: {
    title: "Persons were not merged: an id is not allowed",
    remedy: "Ids such as “anonymous”, “null” or “undefined” stand for many people.",
    refused: false,
  },
  cannot_merge_already_identified: {
    title: "Persons were not merged: both are identified",
    remedy: "Call identify() once for each person, and reset() when they log out.",
    refused: false,
  },
  person_properties_size_violation: {
    title: "The person has too many or too large properties",
    remedy: "The new properties were left out. Unset some first.",
    refused: false,
  },
  too_many_definitions: {
    title: "The project has too many names of events or properties",
    remedy: "Put what varies into a value, not into a name.",
    refused: false,
  },
};

export function reasonOf(kind: Warning["type"]): Reason {
  // The server may know more of them than a page that was loaded before its update.
  return REASONS[kind] ?? { title: kind.replaceAll("_", " "), remedy: "", refused: false };
}

/// A text among the details of a warning.
export function detail(
  { details }: Warning,
  name: "event" | "distinctId" | "eventUuid",
): string | null {
  return details[name] ?? null;
}
