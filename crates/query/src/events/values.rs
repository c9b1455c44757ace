//! Suggested values of a property or column, for filter editors.

use std::collections::{BTreeSet, HashSet};

use facts::{QueryContext, Zone};
use model::ProjectId;
use model::filter_expr::{Field, FilterExpr, OperatorTest};
use model::property::Operator;
use serde_json::Value as Json;
use warehouse::ColumnKey;

use super::Events;
use crate::Result;
use crate::store::{EventConditions, ValueSearch};

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
            let OperatorTest { test, negated } =
                OperatorTest::lower(Operator::Exact, value, now, zone)
                    .map_err(facts::Error::from)?;
            let test = FilterExpr::Test(Field::EventProperty(name.clone()), test);
            equal.push(if negated { FilterExpr::Not(Box::new(test)) } else { test });
        }
        let conditions = EventConditions {
            events: (!request.events.is_empty()).then_some(request.events),
            // The bound is exclusive, and midnight itself belongs to the day.
            after: zone
                .midnight(now, DAYS)
                .map(|at| model::Timestamp::from_micros(at.as_micros() - 1)),
            before: Some(now.plus_seconds(5)),
            filters: FilterExpr::And(equal),
            ..EventConditions::default()
        };
        let containing = request.containing.map(|text| text.to_lowercase());
        let context = QueryContext::new(project, zone.clone(), now);
        let values = self.read_values(context, key, conditions, containing.clone()).await?;
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
        let context = QueryContext::new(project, Zone::named("UTC"), self.now());
        let all = EventConditions::default();
        let values = self.read_values(context, ColumnKey::Event, all, containing.clone()).await?;
        let mut names = distinct_strings(&values, containing.as_deref());
        names.retain(|name| !name.starts_with('$'));
        names.sort_unstable();
        names.truncate(NAMES_MAX);
        Ok(names)
    }

    async fn read_values(
        &self,
        context: QueryContext,
        key: ColumnKey,
        conditions: EventConditions,
        containing: Option<String>,
    ) -> Result<Vec<Json>> {
        let store = self.store.clone();
        let search = ValueSearch { key, conditions, containing, limit: CANDIDATES_MAX };
        let read = move || store.events_view(context).values(search);
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
