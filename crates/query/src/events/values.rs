//! What values a property or column has, for whoever fills in a filter.

use std::collections::{BTreeSet, HashSet};

use facts::{Matcher, Zone};
use model::ProjectId;
use model::property::Operator;
use serde_json::Value as Json;
use warehouse::{Filter, Key, Predicate, Value};

use super::Events;
use crate::Result;

/// How far back values are looked for, as upstream.
const DAYS: i64 = 7;
/// Values shown.
const SHOWN_MAX: usize = 10;
/// Values that are sorted by length to find the shortest, or opened to show what is in lists.
const LOOKED_AT_MAX: usize = 1_000;
/// Names of events shown.
const NAMES_MAX: usize = 1_000;

/// Values of what, on which events.
#[derive(Clone, Debug)]
pub struct ValuesOf {
    pub key: ValuesKey,
    /// Only values with this text in them.
    pub containing: Option<String>,
    /// Only these events; all when empty.
    pub events: BTreeSet<String>,
    /// Only events with these properties.
    pub equal: Vec<(String, Json)>,
}

#[derive(Clone, Debug)]
pub enum ValuesKey {
    Property(String),
    Event,
    DistinctId,
    /// Names of events that are not built in, of all times.
    CustomEvents,
}

impl Events {
    /// Most frequent first; the shortest first when a text is searched for.
    pub async fn values(
        &self,
        project: ProjectId,
        asked: ValuesOf,
        zone: &Zone,
    ) -> Result<Vec<String>> {
        if let ValuesKey::CustomEvents = asked.key {
            return self.custom_events(project, asked.containing).await;
        }
        let key = match asked.key {
            ValuesKey::Property(name) => Key::Property(name),
            ValuesKey::DistinctId => Key::DistinctId,
            ValuesKey::Event | ValuesKey::CustomEvents => Key::Event,
        };
        let now = self.now();
        let mut equal = Vec::new();
        for (name, value) in &asked.equal {
            let matcher = Matcher::new(Operator::Exact, value, now, zone)?;
            let test = move |value: Option<Value<'_>>| matcher.accepts(value);
            equal.push(Predicate::test(Key::Property(name.clone()), test));
        }
        let filter = Filter {
            events: (!asked.events.is_empty()).then_some(asked.events),
            // The bound is exclusive, and midnight itself belongs to the day.
            after: zone
                .midnight(now, DAYS)
                .map(|at| model::Timestamp::from_micros(at.as_micros() - 1)),
            before: Some(now.plus_seconds(5)),
            predicate: (!equal.is_empty()).then_some(Predicate::All(equal)),
            ..Filter::default()
        };
        let containing = asked.containing.map(|text| text.to_lowercase());
        let values = self.read_values(project, key, filter, containing.clone()).await?;
        let mut shown = texts(&values, containing.as_deref());
        if containing.is_some() {
            shown.sort_by_key(|text| text.chars().count());
        }
        shown.truncate(SHOWN_MAX);
        Ok(shown)
    }

    async fn custom_events(
        &self,
        project: ProjectId,
        containing: Option<String>,
    ) -> Result<Vec<String>> {
        let containing = containing.map(|text| text.to_lowercase());
        let values =
            self.read_values(project, Key::Event, Filter::default(), containing.clone()).await?;
        let mut names = texts(&values, containing.as_deref());
        names.retain(|name| !name.starts_with('$'));
        names.sort_unstable();
        names.truncate(NAMES_MAX);
        Ok(names)
    }

    async fn read_values(
        &self,
        project: ProjectId,
        key: Key,
        filter: Filter,
        containing: Option<String>,
    ) -> Result<Vec<Json>> {
        let warehouse = self.warehouse.clone();
        let read = move || {
            let test = |value: Value<'_>| match (&containing, value) {
                (_, Value::Null | Value::Text("")) => false,
                (Some(part), value) => value.to_json().to_lowercase().contains(part.as_str()),
                (None, _) => true,
            };
            Ok(warehouse.snapshot(project).values(&key, &filter, &test, LOOKED_AT_MAX)?)
        };
        let counted = self.reads.run(read).await?;
        let json = |json: String| serde_json::from_str(&json).unwrap_or(Json::String(json));
        Ok(counted.into_iter().map(|value| json(value.json)).collect())
    }
}

/// Lists are opened, equal texts shown once.
fn texts(values: &[Json], containing: Option<&str>) -> Vec<String> {
    let mut seen = HashSet::new();
    let each = values.iter().flat_map(|value| match value {
        Json::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    });
    each.filter(|value| !value.is_null())
        .map(|value| model::property::text(value).into_owned())
        .filter(|text| containing.is_none_or(|part| text.to_lowercase().contains(part)))
        .filter(|text| seen.insert(text.clone()))
        .collect()
}
