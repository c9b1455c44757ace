//! Parses queries as clients send them, and the filters and variables on top of them.

use std::collections::BTreeSet;

use insights::{Insight, StatementQuery, WebQuery};
use model::{ActionId, CohortId, FieldError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::actors_query::ActorsQuery;
use crate::drill_down::{ACTORS_KINDS, DrillDown};
use crate::events_query::EventsQuery;
use crate::hogql_query::HogqlQuery;
use crate::language::LanguageQuery;
use crate::{Error, Result};

/// Kinds that only say how their `source` is displayed.
const WRAPPERS: [&str; 3] = ["InsightVizNode", "DataTableNode", "DataVisualizationNode"];
/// Nested wrappers.
const WRAPPED_MAX: usize = 4;
/// Keys that every kind allows and that never change the result (contract, 1.1).
pub(crate) const ALWAYS_ALLOWED: [&str; 5] = ["version", "tags", "modifiers", "response", "name"];

#[derive(Clone, Debug)]
pub(crate) enum ParsedQuery {
    Hogql(Box<HogqlQuery>),
    Events(Box<EventsQuery>),
    Insight(Box<Insight>),
    Actors(Box<ActorsQuery>),
    Statement(Box<StatementQuery>),
    Language(Box<LanguageQuery>),
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct DateRange {
    #[serde(default)]
    pub date_from: Option<String>,
    #[serde(default)]
    pub date_to: Option<String>,
    #[serde(default, rename = "explicitDate")]
    pub _explicit: Option<bool>,
}

/// Filters and variables of a dashboard or of the request, on top of the query's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overrides {
    /// As sent, lowest layer first; each kind reads the keys that it knows.
    pub filters: Vec<Map<String, Json>>,
    pub variables: Map<String, Json>,
}

impl Overrides {
    pub fn new(mut filters: Vec<Map<String, Json>>, variables: Map<String, Json>) -> Self {
        filters.retain(|layer| !layer.is_empty());
        Self { filters, variables }
    }

    pub fn is_empty(&self) -> bool {
        let given = |name: &str| {
            self.filters.iter().any(|layer| layer.get(name).is_some_and(|value| !value.is_null()))
        };
        !["date_from", "date_to", "properties"].into_iter().any(given)
    }

    /// Property filters of all layers, joined by AND.
    pub fn properties(&self) -> impl Iterator<Item = &Json> {
        self.filters.iter().filter_map(|layer| layer.get("properties"))
    }

    /// The date range of the highest layer that has one, or else the query's.
    pub fn date_range(&self, of_query: Option<&DateRange>) -> DateRange {
        let text = |layer: &Map<String, Json>, name: &str| {
            let text = layer.get(name).and_then(Json::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let given = self.filters.iter().rev().find_map(|layer| {
            let (date_from, date_to) = (text(layer, "date_from"), text(layer, "date_to"));
            let is_given = date_from.is_some() || date_to.is_some();
            is_given.then_some(DateRange { date_from, date_to, _explicit: None })
        });
        given.or_else(|| of_query.cloned()).unwrap_or_default()
    }
}

/// Parses one layer of filters.
pub(crate) fn read_filters(layer: &Map<String, Json>) -> Result<insights::Overrides> {
    read_strictly(&Json::Object(layer.clone()))
}

/// Whether the filters of a dashboard or tile are valid on top of a query.
pub fn check_filter_overrides(filters: &Map<String, Json>) -> std::result::Result<(), FieldError> {
    let read: insights::Overrides = model::deserialize_strict(&Json::Object(filters.clone()))?;
    read.check().map_err(|(attr, why)| FieldError {
        attr: attr.into(),
        code: "invalid_input",
        detail: why.to_string(),
    })
}

/// Whether a project's test account filters are valid.
pub fn check_test_account_filters(filters: &Json) -> Result<()> {
    let on_top = insights::Overrides { properties: filters.clone(), ..Default::default() };
    on_top.check().map_err(|(_, why)| why.into())
}

/// Whether a property filter can be evaluated on events; returns the cohorts that it references.
pub fn check_property_filter(filter: &Map<String, Json>) -> Result<BTreeSet<CohortId>> {
    Ok(insights::check_filter(filter)?)
}

/// A query without its display wrappers, or the short id of the saved insight that it wraps.
pub(crate) enum Unwrapped<'a> {
    Query(&'a Map<String, Json>),
    Saved(&'a str),
}

pub(crate) fn unwrap(query: &Json) -> Result<Unwrapped<'_>> {
    let mut inner = query;
    for _ in 0..WRAPPED_MAX {
        let Json::Object(fields) = inner else { break };
        let kind = fields.get("kind").and_then(Json::as_str).unwrap_or_default();
        if kind == "SavedInsightNode" {
            let id = fields.get("shortId").and_then(Json::as_str);
            return id
                .map(Unwrapped::Saved)
                .ok_or_else(|| Error::Parse("shortId is missing.".into()));
        }
        if !WRAPPERS.contains(&kind) {
            return Ok(Unwrapped::Query(fields));
        }
        inner = fields.get("source").ok_or_else(|| Error::Parse("source is missing.".into()))?;
    }
    Err(Error::Parse("The query must be an object with a kind.".into()))
}

/// Whether a query is valid. Objects that it references may be missing, and unsupported kinds pass
/// unchecked.
pub fn check(query: &Json) -> Result<()> {
    match unwrap(query)? {
        Unwrapped::Saved(_) => Ok(()),
        Unwrapped::Query(query) => match ParsedQuery::of_known_kind(kind(query)?, query)? {
            Some(question) => question.check(),
            None => Ok(()),
        },
    }
}

fn kind(query: &Map<String, Json>) -> Result<&str> {
    let kind = query.get("kind").and_then(Json::as_str);
    kind.ok_or_else(|| Error::Parse("The query needs a kind.".into()))
}

impl ParsedQuery {
    pub fn parse(query: &Map<String, Json>) -> Result<Self> {
        let kind = kind(query)?;
        let unknown = || Error::Parse(format!("Unknown kind of query: {kind}."));
        Self::of_known_kind(kind, query)?.ok_or_else(unknown)
    }

    /// None for an unsupported kind.
    fn of_known_kind(kind: &str, query: &Map<String, Json>) -> Result<Option<Self>> {
        Ok(match kind {
            "HogQLQuery" => Some(Self::Hogql(read(query)?)),
            "EventsQuery" => Some(Self::Events(Box::new(EventsQuery::read(query)?))),
            "ActorsQuery" | "PersonsQuery" => {
                Some(Self::Actors(Box::new(ActorsQuery::read(query)?)))
            }
            _ if ACTORS_KINDS.contains(&kind) => {
                Some(Self::Actors(Box::new(ActorsQuery::of_point(query)?)))
            }
            "WebVitalsQuery" => Some(Self::Insight(Box::new(read_vitals(query)?))),
            _ => match Self::of_insights(kind, &Json::Object(query.clone()))? {
                Some(parsed) => Some(parsed),
                None => {
                    LanguageQuery::parse(kind, query)?.map(|query| Self::Language(Box::new(query)))
                }
            },
        })
    }

    fn of_insights(kind: &str, query: &Json) -> Result<Option<Self>> {
        if let Some(insight) = Insight::parse(kind, query) {
            return Ok(Some(Self::Insight(Box::new(insight?))));
        }
        let parsed = StatementQuery::parse(kind, query).transpose()?;
        Ok(parsed.map(|query| Self::Statement(Box::new(query))))
    }

    /// The data point that an actors or events query drills down into.
    fn drill_down(&self) -> Option<&DrillDown> {
        match self {
            Self::Events(query) => query.source.as_ref(),
            Self::Actors(query) => query.source.as_ref(),
            Self::Hogql(_) | Self::Insight(_) | Self::Statement(_) | Self::Language(_) => None,
        }
    }

    /// The insight of an insight query, or the one that is drilled down into.
    pub fn insight_mut(&mut self) -> Option<&mut Insight> {
        let source = match self {
            Self::Insight(insight) => return Some(insight),
            Self::Events(query) => query.source.as_mut(),
            Self::Actors(query) => query.source.as_mut(),
            Self::Hogql(_) | Self::Statement(_) | Self::Language(_) => None,
        };
        source.map(|source| &mut *source.insight)
    }

    /// Applies a layer of filters to an insight; other kinds read the layers when they are planned.
    pub fn apply_filters(&mut self, layer: &insights::Overrides) {
        if let Self::Statement(query) = self {
            return query.apply_filters(layer);
        }
        if let Some(insight) = self.insight_mut() {
            insight.apply_filters(layer);
        }
    }

    /// Sets the limit of a query that sets none.
    pub fn set_default_limit(&mut self, rows: u64) {
        match self {
            Self::Hogql(query) => query.default_limit = Some(rows),
            Self::Events(query) => query.set_default_limit(rows),
            Self::Actors(query) => query.set_default_limit(rows),
            Self::Statement(query) => query.set_default_limit(rows),
            Self::Insight(_) | Self::Language(_) => {}
        }
    }

    /// The statement, if it may name variables, whose defaults it needs then.
    pub fn statement_with_variables(&mut self) -> Option<&mut HogqlQuery> {
        let statement: Option<&mut HogqlQuery> = match self {
            Self::Hogql(query) => Some(query),
            Self::Actors(query) => query.statement_mut(),
            _ => None,
        };
        statement.filter(|statement| statement.mentions_variables())
    }

    /// Whether it is valid, apart from objects that it references.
    fn check(&self) -> Result<()> {
        match self {
            Self::Hogql(query) => query.check(),
            Self::Events(query) => query.check(),
            Self::Insight(insight) => Ok(insight.check()?),
            Self::Actors(query) => query.check(),
            Self::Statement(query) => Ok(query.check()?),
            Self::Language(query) => query.check(),
        }
    }

    /// Checks the syntax of a HogQL statement; names are resolved when it runs.
    pub fn check_syntax(&self) -> Result<()> {
        match self {
            Self::Hogql(query) => Ok(hogql::parse(&query.query).map(drop)?),
            _ => Ok(()),
        }
    }

    /// The actions that it references.
    pub fn actions(&self) -> BTreeSet<ActionId> {
        let (insight, own) = match self {
            Self::Insight(insight) => (Some(insight), None),
            Self::Events(query) => (None, query.action_id()),
            Self::Statement(query) => return query.actions().into_iter().collect(),
            Self::Hogql(_) | Self::Actors(_) | Self::Language(_) => (None, None),
        };
        let insight = insight.or(self.drill_down().map(|source| &source.insight));
        let named = insight.into_iter().flat_map(|insight| insight.actions());
        named.map(ActionId).chain(own).collect()
    }

    /// What the read view must hold. A HogQL statement may reference cohorts in its text or in the
    /// filters that are inserted into it, so any mention of "cohort" loads all of them.
    pub fn needs(&self, overrides: &Overrides) -> facts::Needs {
        let on_top = || format!("{:?}", overrides.filters);
        let mentions = |text: String| text.to_ascii_lowercase().contains("cohort");
        let all_cohorts = match self {
            Self::Insight(insight) => return insight.needs(),
            Self::Hogql(query) => mentions(format!("{query:?}")) || mentions(on_top()),
            Self::Events(query) => query.mentions_cohorts() || mentions(on_top()),
            Self::Actors(query) => query.mentions_cohorts(),
            Self::Statement(query) => return query.needs(),
            Self::Language(_) => return facts::Needs::default(),
        };
        let source = self.drill_down();
        let mut needs = source.map(|source| source.insight.needs()).unwrap_or_default();
        needs.groups = true;
        needs.all_cohorts |= all_cohorts;
        needs.actions.extend(self.actions());
        needs
    }
}

/// The insight in a `WebVitalsQuery`, which computes its result.
fn read_vitals(query: &Map<String, Json>) -> Result<Insight> {
    let mut query = query.clone();
    let source = query.remove("source").unwrap_or_default();
    WebQuery::check_vitals(&Json::Object(query))?;
    let kind = source.get("kind").and_then(Json::as_str).unwrap_or_default();
    let why = || Error::Parse("The source of a WebVitalsQuery is an insight query.".into());
    Ok(Insight::parse(kind, &source).ok_or_else(why)??)
}

fn read<T: DeserializeOwned>(query: &Map<String, Json>) -> Result<Box<T>> {
    read_strictly(&Json::Object(strict_part(query))).map(Box::new)
}

/// A query without the keys that have no effect, so that the rest can be parsed strictly.
pub(crate) fn strict_part(query: &Map<String, Json>) -> Map<String, Json> {
    let mut query = query.clone();
    ALWAYS_ALLOWED.iter().for_each(|name| drop(query.remove(*name)));
    let kind = query.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
    insights::strip_noop_keys(&kind, &mut query);
    query
}

pub(crate) fn read_strictly<T: DeserializeOwned>(sent: &Json) -> Result<T> {
    model::deserialize_strict(sent).map_err(|why| Error::Parse(why.dotted_message()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, key: &str, value: &Json) -> Result<ParsedQuery> {
        let mut query = match kind {
            "HogQLQuery" => json!({ "kind": kind, "query": "select 1" }),
            _ => json!({ "kind": kind, "select": ["event"] }),
        };
        query[key] = value.clone();
        ParsedQuery::parse(query.as_object().unwrap())
    }

    #[test]
    fn queries_accept_null_and_default_values_and_refuse_unsupported_keys() {
        for kind in ["HogQLQuery", "EventsQuery", "ActorsQuery"] {
            for key in ["connectionId", "source", "frobnicate", "filters", "limit"] {
                assert!(read(kind, key, &Json::Null).is_ok(), "{kind} {key}");
            }
            for value in [json!("x"), json!(false), json!([]), json!({})] {
                assert!(read(kind, "frobnicate", &value).is_err(), "{kind} {value}");
            }
        }
        for (kind, key, default, others) in [
            ("HogQLQuery", "sendRawQuery", json!(false), vec![json!(true), json!("x")]),
            ("HogQLQuery", "connectionId", Json::Null, vec![json!("an id"), json!("")]),
            ("EventsQuery", "actionSteps", json!([]), vec![json!([{ "event": "a" }])]),
            ("EventsQuery", "source", Json::Null, vec![json!({ "kind": "InsightActorsQuery" })]),
        ] {
            assert!(read(kind, key, &default).is_ok(), "{kind} {key}");
            for other in others {
                assert!(read(kind, key, &other).is_err(), "{kind} {key} {other}");
            }
        }
    }

    /// Their answers are checked where the engines are (`cargo test -p sql corpus`).
    #[test]
    fn queries_as_clients_write_them_are_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/insights");
        let mut checked = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let entry: Json = serde_json::from_str(line).unwrap();
                if entry["refused"].is_null() {
                    check(&entry["query"]).unwrap_or_else(|error| panic!("{error}: {line}"));
                    checked += 1;
                }
            }
        }
        assert!(checked >= 150, "{checked} queries");
    }
}
