//! Stored event rows in the JSON shape of the API.

use std::collections::BTreeMap;

use facts::{Element, parse_elements};
use model::Timestamp;
use model::json::to_value;
use model::person::Person;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use uuid::Uuid;
use warehouse::EventRow;

/// Person properties that are returned with an event.
const PERSON_PROPERTIES: [&str; 3] = ["email", "name", "username"];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Event {
    pub id: Uuid,
    pub distinct_id: String,
    /// Values as stored, number literals included.
    #[schemars(with = "Map<String, Value>")]
    pub properties: BTreeMap<String, Box<RawValue>>,
    pub event: String,
    pub timestamp: String,
    pub person: Option<EventPerson>,
    pub elements: Vec<Element>,
    pub elements_chain: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventPerson {
    pub is_identified: bool,
    /// The event's distinct id only.
    pub distinct_ids: [String; 1],
    pub properties: Map<String, Value>,
}

impl Event {
    pub(crate) fn new(row: EventRow, person: Option<&Person>) -> Self {
        let property = |name: &str| {
            let value = person?.properties.get(name)?;
            Some((name.to_owned(), value.clone()))
        };
        let person = person.map(|person| EventPerson {
            is_identified: person.is_identified,
            distinct_ids: [row.distinct_id.to_string()],
            properties: PERSON_PROPERTIES.into_iter().filter_map(property).collect(),
        });
        Self {
            id: row.uuid,
            properties: properties(&row.properties),
            timestamp: event_time(row.timestamp),
            elements: parse_elements(&row.elements_chain),
            distinct_id: row.distinct_id.to_string(),
            event: row.event.to_string(),
            elements_chain: row.elements_chain,
            person,
        }
    }
}

/// Upstream's clients expect `+00:00` in events, where the rest of the API writes `Z`.
pub fn event_time(at: Timestamp) -> String {
    let text = at.to_string();
    text.strip_suffix('Z').map_or_else(|| text.clone(), |bare| format!("{bare}+00:00"))
}

/// The warehouse only stores properties that are a JSON object.
fn properties(json: &str) -> BTreeMap<String, Box<RawValue>> {
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(json).unwrap_or_default();
    for value in members.values_mut() {
        if let Some(replacement) = sanitized(value.get()) {
            *value = replacement;
        }
    }
    members
}

/// The replacement of a value, if it needs one: old SDKs put strings in extra quotes, and a number
/// that overflows to infinity has no JSON representation.
fn sanitized(json: &str) -> Option<Box<RawValue>> {
    match json.as_bytes().first()? {
        b'"' if json.contains("\\\"") => {
            let text: String = serde_json::from_str(json).ok()?;
            let bare = text.trim_matches('"');
            (bare.len() < text.len()).then(|| to_raw_value(bare).ok()).flatten()
        }
        b'{' | b'[' => {
            // JSON that parses has no infinite numbers.
            let unreadable = serde_json::from_str::<Value>(json).is_err();
            unreadable.then(|| to_raw_value(&to_value(json)).ok()).flatten()
        }
        b'-' | b'0'..=b'9' => {
            let is_infinite = json.parse::<f64>().is_ok_and(f64::is_infinite);
            is_infinite.then(|| to_raw_value(&()).ok()).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_properties_keep_literals_and_lose_extra_quotes_and_infinite_numbers() {
        let sent = r#"{"a":1.0,"b":"\"quoted\"","c":1e999,"d":{"e":[12345678901234567890123]},"f":"x\"y","g":-1e999,"h":[1e400,"x"]}"#;
        let json = serde_json::to_string(&properties(sent)).unwrap();
        let expected = r#"{"a":1.0,"b":"quoted","c":null,"d":{"e":[12345678901234567890123]},"f":"x\"y","g":null,"h":[null,"x"]}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn event_timestamps_end_with_a_utc_offset() {
        for (micros, expected) in [
            (1_709_287_199_123_000, "2024-03-01T09:59:59.123000+00:00"),
            (1_709_287_199_000_000, "2024-03-01T09:59:59+00:00"),
        ] {
            assert_eq!(event_time(Timestamp::from_micros(micros)), expected);
        }
    }
}
