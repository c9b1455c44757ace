//! Derives event and property definitions, event volumes and flag usage from events.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, Hasher as _};

use ahash::RandomState;
use model::Timestamp;
use model::definition::{
    Day, FlagObservation, Observations, ObservedEvent, ObservedFlag, ObservedProperty,
    PropertyOwner, PropertyType, VOLUME_DAYS,
};
use serde_json::Value;

use crate::normalize::{NormalizedEvent, name, parse_time};

/// Longer names get no definition.
const NAME_BYTES_MAX: usize = 200;
/// An event with more updates than this (two per property) gets no definitions.
const UPDATES_MAX: usize = 10_000;
const LAST_SEEN_SECONDS: i64 = 3_600;
/// Half a year: a number that is at least this recent as Unix seconds counts as a timestamp.
const RECENT_SECONDS: u64 = 15_768_000;
/// Hashes of reported observations, so that they are not written for every event. Beyond the bound
/// all are evicted and reported once more.
const REPORTED_MAX: usize = 1_000_000;

/// Length of a flag's key; longer keys are ignored.
const FLAG_KEY_CHARS_MAX: usize = 400;
/// Resolution of a flag's `last_called_at`; finer would be a write for every batch.
const MINUTE_MICROS: i64 = 60_000_000;

const UNTYPED: i64 = 0;
const TYPED: i64 = 1;

/// Properties that control ingestion and get no definition.
const NOT_EVENT_PROPERTIES: &[&str] = &[
    "$set",
    "$set_once",
    "$unset",
    "$groups",
    "$group_0",
    "$group_1",
    "$group_2",
    "$group_3",
    "$group_4",
];

/// Deduplicates observations: reports to the catalog only what is new.
#[derive(Debug, Default)]
pub struct Definitions {
    hasher: RandomState,
    /// Hash of the observation → for events the hour of the last one, for properties whether a type
    /// was inferred.
    reported: HashMap<u64, i64, RandomState>,
    /// The day of the latest event.
    today: Option<Day>,
}

impl Definitions {
    /// Adds what an event reveals to `observations`, except what was reported before.
    pub fn observe(
        &mut self,
        event: &NormalizedEvent<'_>,
        group_index: Option<u8>,
        observations: &mut Observations,
    ) {
        if event.name == "$$plugin_metrics" || event.name.len() > NAME_BYTES_MAX {
            return;
        }
        self.count(event, observations);
        self.observe_flag(event, observations);
        let changes = &event.changes;
        let updates = event.properties.len()
            + changes.set.len()
            + changes.set_once.len()
            + 2 * event.copies().len();
        if 2 * updates > UPDATES_MAX {
            return;
        }
        if self.reported.len() > REPORTED_MAX {
            // A new map also frees its capacity.
            self.reported = HashMap::default();
        }
        let (project, now) = (event.project, event.received_at);
        let hour = now.as_micros().div_euclid(1_000_000 * LAST_SEEN_SECONDS);
        if self.is_new((project, event.name), hour) {
            observations.events.push(ObservedEvent {
                project,
                name: event.name.to_owned(),
                at: now,
            });
        }
        if let (Some(identify), Some(index)) = (&event.group_identify, group_index) {
            for (name, value) in &identify.set {
                let owner = PropertyOwner::Group(index);
                self.property(event, owner, name, || Cow::Borrowed(value), observations);
            }
        }
        if !self.is_new(self.shape(event), 0) {
            return;
        }
        // The last of repeated names wins.
        for (name, json) in event.properties.iter().rev() {
            if NOT_EVENT_PROPERTIES.contains(&name) {
                continue;
            }
            let value = || Cow::Owned(serde_json::from_str(json).unwrap_or(Value::Null));
            self.property(event, PropertyOwner::Event, name, value, observations);
        }
        for (name, value) in changes.set.iter().chain(&changes.set_once) {
            self.property(
                event,
                PropertyOwner::Person,
                name,
                || Cow::Borrowed(value),
                observations,
            );
        }
        for copied in event.copies().all() {
            for name in [Some(copied.name.text()), copied.initial()].into_iter().flatten() {
                let value = || Cow::Owned(copied.value());
                self.property(event, PropertyOwner::Person, name, value, observations);
            }
        }
    }

    /// Hash of an event's name, property names and which values have an inferable type. Events of
    /// the same shape have the same definitions.
    fn shape(&self, event: &NormalizedEvent<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        (event.project, event.name, "shape").hash(&mut hasher);
        let changes = &event.changes;
        for (name, value) in changes.set.iter().chain(&changes.set_once) {
            let has_type = !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
            (name, has_type).hash(&mut hasher);
        }
        (event.properties.shape(), event.copies().shape()).hash(&mut hasher);
        hasher.finish()
    }

    /// Calls `value` only while the type is unknown: the first inferred type stays.
    fn property<'v>(
        &mut self,
        event: &NormalizedEvent<'_>,
        owner: PropertyOwner,
        name: &str,
        value: impl FnOnce() -> Cow<'v, Value>,
        observations: &mut Observations,
    ) {
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let project = event.project;
        let key = self.hasher.hash_one((project, owner, name));
        let reported = self.reported.get(&key).copied();
        if reported != Some(TYPED) {
            let kind = infer(name, &value(), event.received_at);
            let state = if kind.is_some() { TYPED } else { UNTYPED };
            if reported != Some(state) {
                self.reported.insert(key, state);
                let name = name.to_owned();
                observations.properties.push(ObservedProperty { project, owner, name, kind });
            }
        }
        if owner == PropertyOwner::Event && self.is_new((project, event.name, name), 0) {
            observations.pairs.push((project, event.name.to_owned(), name.to_owned()));
        }
    }

    /// Counts an event in the volumes, if it is in their window.
    fn count(&mut self, event: &NormalizedEvent<'_>, observations: &mut Observations) {
        let (day, today) = (Day::of(event.time), Day::of(event.received_at));
        if self.today < Some(today) {
            self.today = Some(today);
            observations.volumes_since = Some(today.minus(VOLUME_DAYS));
        }
        if day < today.minus(VOLUME_DAYS) || day > today.minus(-1) {
            return;
        }
        let counts = observations.volumes.entry((event.project, day)).or_default();
        match counts.get_mut(event.name) {
            Some(count) => *count += 1,
            None => drop(counts.insert(event.name.to_owned(), 1)),
        }
    }

    fn observe_flag(&mut self, event: &NormalizedEvent<'_>, observations: &mut Observations) {
        let project = event.project;
        let key = |property| {
            let key = event.properties.text(property)?;
            (key.chars().count() <= FLAG_KEY_CHARS_MAX).then(|| key.into_owned())
        };
        match event.name {
            "$feature_flag_called" => {
                let Some(key) = key(name!("$feature_flag")) else { return };
                // The client's clock may be ahead.
                let at = event.time.min(event.received_at).as_micros();
                let minute = at.div_euclid(MINUTE_MICROS);
                let reported = self.reported.entry(self.hasher.hash_one((project, "called", &key)));
                let reported = reported.or_insert(i64::MIN);
                if *reported < minute {
                    *reported = minute;
                    let at = Timestamp::from_micros(minute * MINUTE_MICROS);
                    observations.flags.push(ObservedFlag {
                        project,
                        key,
                        observation: FlagObservation::Called(at),
                    });
                }
            }
            "$feature_view" | "$feature_interaction" => {
                let Some(key) = key(name!("feature_flag")) else { return };
                // Reported hourly, as the flag may be created after its first event.
                let hour = event.received_at.as_micros().div_euclid(1_000_000 * LAST_SEEN_SECONDS);
                if self.is_new((project, "enriched", &key), hour) {
                    observations.flags.push(ObservedFlag {
                        project,
                        key,
                        observation: FlagObservation::Enriched,
                    });
                }
            }
            _ => {}
        }
    }

    fn is_new(&mut self, observation: impl Hash, hour: i64) -> bool {
        self.reported.insert(self.hasher.hash_one(observation), hour) != Some(hour)
    }

    /// Reports everything again, after a failed write.
    pub fn reset(&mut self) {
        self.reported.clear();
        self.today = None;
    }
}

/// Infers a property's type by the first rule that matches.
fn infer(name: &str, value: &Value, now: Timestamp) -> Option<PropertyType> {
    let name = name.to_lowercase();
    if ["utm_", "$feature/", "$survey_response"].iter().any(|start| name.starts_with(start))
        || name == "$feature_flag_response"
    {
        return Some(PropertyType::String);
    }
    let name_suggests_time = ["time", "timestamp", "date", "_at", "-at", "createdat", "updatedat"]
        .iter()
        .any(|part| name.contains(part));
    if name_suggests_time && is_timestamp_like(value, now) {
        return Some(PropertyType::DateTime);
    }
    match value {
        Value::String(text) => Some(match text.trim() {
            "true" | "false" | "TRUE" | "FALSE" => PropertyType::Boolean,
            text if is_date_like(text) => PropertyType::DateTime,
            _ => PropertyType::String,
        }),
        Value::Number(_) => Some(PropertyType::Numeric),
        Value::Bool(_) => Some(PropertyType::Boolean),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_timestamp_like(value: &Value, now: Timestamp) -> bool {
    let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
    match value {
        Value::String(text) => is_date_like(text.trim()),
        Value::Number(number) => {
            number.as_u64().is_some_and(|number| number >= seconds.saturating_sub(RECENT_SECONDS))
        }
        _ => false,
    }
}

/// A date with day and month in either order, or a full timestamp. Plain digits are not a date.
fn is_date_like(text: &str) -> bool {
    if text.len() < 8 || text.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if text.as_bytes()[0].is_ascii_alphabetic() {
        return parse_time(text).is_some();
    }
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let parts: Vec<&str> = date.split(['-', '/']).collect();
    let [first, second, third] = parts[..] else { return false };
    let within = |part: &str, most: u8| {
        part.len() == 2 && part.parse::<u8>().is_ok_and(|number| number <= most)
    };
    let year = |part: &str| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let dated = (year(first) && within(second, 29) && within(third, 39))
        || (year(third) && within(first, 39) && within(second, 39));
    dated && (rest.is_empty() || is_clock(rest))
}

/// Starts with ` HH:MM:SS` or `THH:MM:SS`.
fn is_clock(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    matches!(bytes.first(), Some(b' ' | b'T' | b't'))
        && bytes.get(3) == Some(&b':')
        && bytes.get(6) == Some(&b':')
        && [1, 2, 4, 5, 7, 8].iter().all(|at| bytes.get(*at).is_some_and(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: ingestion 120-122
    #[test]
    fn property_type_is_inferred_from_name_and_value() {
        let now = Timestamp::from_micros(1_790_000_000_000_000);
        for (name, value, expected) in [
            ("n", json!(1), Some(PropertyType::Numeric)),
            ("s", json!("1"), Some(PropertyType::String)),
            ("b", json!("true"), Some(PropertyType::Boolean)),
            ("b", json!(false), Some(PropertyType::Boolean)),
            ("d", json!("2024-01-02"), Some(PropertyType::DateTime)),
            ("d", json!("02/01/2024 10:00:00"), Some(PropertyType::DateTime)),
            ("d", json!("2024-01-02T10:00:00Z"), Some(PropertyType::DateTime)),
            ("d", json!("20240102"), Some(PropertyType::String)),
            ("o", json!({}), None),
            ("l", json!([1]), None),
            ("x", json!(null), None),
            ("created_at", json!(1_790_000_000_u64), Some(PropertyType::DateTime)),
            ("created_at", json!(1_790_000_000_000_u64), Some(PropertyType::DateTime)),
            ("created_at", json!(5), Some(PropertyType::Numeric)),
            ("paid_time", json!("abc"), Some(PropertyType::String)),
            ("lifetime_value", json!(9_000_000_000_u64), Some(PropertyType::DateTime)),
            ("utm_x", json!(5), Some(PropertyType::String)),
            ("$feature/f", json!(true), Some(PropertyType::String)),
            ("$survey_response_2", json!(3), Some(PropertyType::String)),
        ] {
            assert_eq!(infer(name, &value, now), expected, "{name}: {value}");
        }
    }
}
