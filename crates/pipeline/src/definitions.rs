//! Which events and properties a project uses, and what its values look like.

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

use crate::normalise::{Normalised, name, parse_time};

/// Names longer than this are kept on the event and nowhere else.
const NAME_BYTES_MAX: usize = 200;
/// An event that would update more than this (two for each key) defines nothing.
const UPDATES_MAX: usize = 10_000;
const LAST_SEEN_SECONDS: i64 = 3_600;
/// Half a year: a number this recent or later, read as seconds, is taken for a time.
const RECENT_SECONDS: u64 = 15_768_000;
/// What was written once is remembered by its hash, so that it is not written for every event.
/// Past the bound everything is forgotten, and written once more.
const REMEMBERED_MAX: usize = 1_000_000;

/// A flag's key; longer ones no flag has.
const FLAG_KEY_CHARS_MAX: usize = 400;
/// When a flag was called is told to the minute: more would be a write for every batch.
const MINUTE_MICROS: i64 = 60_000_000;

const UNTYPED: i64 = 0;
const TYPED: i64 = 1;

/// Keys that are instructions to us, not facts about the event.
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

/// Remembers what was told already.
#[derive(Debug, Default)]
pub struct Definitions {
    hasher: RandomState,
    /// Hash of the sighting, and for events the hour of the last one, for properties whether a
    /// type was found.
    told: HashMap<u64, i64, RandomState>,
    /// The day of the latest event.
    today: Option<Day>,
}

impl Definitions {
    /// Notes what an event shows, and leaves out what the catalog was told before.
    pub fn see(
        &mut self,
        event: &Normalised<'_>,
        group_index: Option<u8>,
        observations: &mut Observations,
    ) {
        if event.name == "$$plugin_metrics" || event.name.len() > NAME_BYTES_MAX {
            return;
        }
        self.count(event, observations);
        self.see_flag(event, observations);
        let changes = &event.changes;
        let updates = event.properties.len()
            + changes.set.len()
            + changes.set_once.len()
            + 2 * event.copies().len();
        if 2 * updates > UPDATES_MAX {
            return;
        }
        if self.told.len() > REMEMBERED_MAX {
            // Its room, too: whoever sends a million names sends them once.
            self.told = HashMap::default();
        }
        let (project, now) = (event.project, event.received_at);
        let hour = now.as_micros().div_euclid(1_000_000 * LAST_SEEN_SECONDS);
        if self.is_news((project, event.name), hour) {
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
        if !self.is_news(self.shape(event), 0) {
            return;
        }
        // Of a repeated name the last one counts.
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

    /// Two events of one shape show the same names, and values whose types are found or not alike.
    fn shape(&self, event: &Normalised<'_>) -> u64 {
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

    /// `value` is only asked for while no type is known: the first one that is found stays.
    fn property<'v>(
        &mut self,
        event: &Normalised<'_>,
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
        let told = self.told.get(&key).copied();
        if told != Some(TYPED) {
            let kind = infer(name, &value(), event.received_at);
            let state = if kind.is_some() { TYPED } else { UNTYPED };
            if told != Some(state) {
                self.told.insert(key, state);
                let name = name.to_owned();
                observations.properties.push(ObservedProperty { project, owner, name, kind });
            }
        }
        if owner == PropertyOwner::Event && self.is_news((project, event.name, name), 0) {
            observations.pairs.push((project, event.name.to_owned(), name.to_owned()));
        }
    }

    /// Counts an event of one of the last days; older ones nobody asks for.
    fn count(&mut self, event: &Normalised<'_>, observations: &mut Observations) {
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

    fn see_flag(&mut self, event: &Normalised<'_>, observations: &mut Observations) {
        let project = event.project;
        let key = |property| {
            let key = event.properties.text(property)?;
            (key.chars().count() <= FLAG_KEY_CHARS_MAX).then(|| key.into_owned())
        };
        match event.name {
            "$feature_flag_called" => {
                let Some(key) = key(name!("$feature_flag")) else { return };
                // A sender's clock may be ahead.
                let at = event.time.min(event.received_at).as_micros();
                let minute = at.div_euclid(MINUTE_MICROS);
                let told = self.told.entry(self.hasher.hash_one((project, "called", &key)));
                let told = told.or_insert(i64::MIN);
                if *told < minute {
                    *told = minute;
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
                // Once an hour, for a flag that is made after its first event.
                let hour = event.received_at.as_micros().div_euclid(1_000_000 * LAST_SEEN_SECONDS);
                if self.is_news((project, "enriched", &key), hour) {
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

    fn is_news(&mut self, what: impl Hash, hour: i64) -> bool {
        self.told.insert(self.hasher.hash_one(what), hour) != Some(hour)
    }

    /// After a failed write: tell everything again.
    pub fn forget(&mut self) {
        self.told.clear();
        self.today = None;
    }
}

/// The type a value looks like, the first rule that fits.
fn infer(name: &str, value: &Value, now: Timestamp) -> Option<PropertyType> {
    let name = name.to_lowercase();
    if ["utm_", "$feature/", "$survey_response"].iter().any(|start| name.starts_with(start))
        || name == "$feature_flag_response"
    {
        return Some(PropertyType::String);
    }
    let names_a_time = ["time", "timestamp", "date", "_at", "-at", "createdat", "updatedat"]
        .iter()
        .any(|part| name.contains(part));
    if names_a_time && looks_like_a_time(value, now) {
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

fn looks_like_a_time(value: &Value, now: Timestamp) -> bool {
    let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
    match value {
        Value::String(text) => is_date_like(text.trim()),
        Value::Number(number) => {
            number.as_u64().is_some_and(|number| number >= seconds.saturating_sub(RECENT_SECONDS))
        }
        _ => false,
    }
}

/// A date with its day and month in either order, or a full time. Bare digits are no date.
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

/// ` HH:MM:SS` or `THH:MM:SS`, whatever follows.
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
    fn infers_the_type_people_would_expect() {
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
