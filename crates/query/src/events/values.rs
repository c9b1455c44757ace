//! Suggested values of a property or column, for filter editors.

use std::collections::{BTreeSet, HashSet};

use facts::{Matcher, Zone};
use model::ProjectId;
use model::property::Operator;
use serde_json::Value as Json;
use warehouse::{ColumnKey, Filter, Predicate, Value};

use super::Events;
use crate::Result;

/// Days of events that are searched for values, as upstream does.
const DAYS: i64 = 7;
/// Values returned.
const VALUES_MAX: usize = 10;
/// Distinct values that are read before lists are flattened and the shortest are picked.
const CANDIDATES_MAX: usize = 1_000;
/// Event names returned.
const NAMES_MAX: usize = 1_000;

/// The column to list values of, and the events to search.
#[derive(Clone, Debug)]
pub struct ValuesRequest {
    pub key: ValuesKey,
    /// Only values that contain this string.
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
    /// Names of events that do not start with `$`, regardless of date.
    CustomEvents,
}

impl Events {
    /// The most frequent first; with a search string, the shortest first.
    pub async fn values(
        &self,
        project: ProjectId,
        request: ValuesRequest,
        zone: &Zone,
    ) -> Result<Vec<String>> {
        if let ValuesKey::CustomEvents = request.key {
            return self.custom_events(project, request.containing).await;
        }
        let key = match request.key {
            ValuesKey::Property(name) => ColumnKey::Property(name),
            ValuesKey::DistinctId => ColumnKey::DistinctId,
            ValuesKey::Event | ValuesKey::CustomEvents => ColumnKey::Event,
        };
        let now = self.now();
        let mut equal = Vec::new();
        for (name, value) in &request.equal {
            let matcher = Matcher::new(Operator::Exact, value, now, zone)?;
            let test = move |value: Option<Value<'_>>| matcher.accepts(value);
            equal.push(Predicate::test(ColumnKey::Property(name.clone()), test));
        }
        let filter = Filter {
            events: (!request.events.is_empty()).then_some(request.events),
            // The bound is exclusive, and midnight itself belongs to the day.
            after: zone
                .midnight(now, DAYS)
                .map(|at| model::Timestamp::from_micros(at.as_micros() - 1)),
            before: Some(now.plus_seconds(5)),
            predicate: (!equal.is_empty()).then_some(Predicate::All(equal)),
            ..Filter::default()
        };
        let containing = request.containing.map(|text| text.to_lowercase());
        let values = self.read_values(project, key, filter, containing.clone()).await?;
        let mut listed = distinct_strings(&values, containing.as_deref());
        if containing.is_some() {
            listed.sort_by_key(|text| text.chars().count());
        }
        listed.truncate(VALUES_MAX);
        Ok(listed)
    }

    async fn custom_events(
        &self,
        project: ProjectId,
        containing: Option<String>,
    ) -> Result<Vec<String>> {
        let containing = containing.map(|text| text.to_lowercase());
        let values = self
            .read_values(project, ColumnKey::Event, Filter::default(), containing.clone())
            .await?;
        let mut names = distinct_strings(&values, containing.as_deref());
        names.retain(|name| !name.starts_with('$'));
        names.sort_unstable();
        names.truncate(NAMES_MAX);
        Ok(names)
    }

    async fn read_values(
        &self,
        project: ProjectId,
        key: ColumnKey,
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
            Ok(warehouse.snapshot(project).values(&key, &filter, &test, CANDIDATES_MAX)?)
        };
        let counted = self.reads.run(read).await?;
        let json = |json: String| serde_json::from_str(&json).unwrap_or(Json::String(json));
        Ok(counted.into_iter().map(|value| json(value.json)).collect())
    }
}

/// Distinct values as strings, with lists flattened.
fn distinct_strings(values: &[Json], containing: Option<&str>) -> Vec<String> {
    let mut unique = HashSet::new();
    let each = values.iter().flat_map(|value| match value {
        Json::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    });
    each.filter(|value| !value.is_null())
        .map(|value| model::property::text(value).into_owned())
        .filter(|text| containing.is_none_or(|part| text.to_lowercase().contains(part)))
        .filter(|text| unique.insert(text.clone()))
        .collect()
}
