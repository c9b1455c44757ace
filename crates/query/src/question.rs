//! Questions as clients send them.

use std::collections::BTreeSet;

use insights::Insight;
use model::{ActionId, CohortId, Refusal};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::actors_query::ActorsQuery;
use crate::events_query::EventsQuery;
use crate::hogql_query::HogqlQuery;
use crate::{Error, Result};

/// Kinds that only say how their `source` is shown.
const WRAPPERS: [&str; 3] = ["InsightVizNode", "DataTableNode", "DataVisualizationNode"];
/// Wrappers in wrappers.
const WRAPPED_MAX: usize = 4;
/// Allowed in every kind, and without effect on the answer (contract, 1.1).
pub(crate) const ALWAYS_ALLOWED: [&str; 5] = ["version", "tags", "modifiers", "response", "name"];

#[derive(Clone, Debug)]
pub(crate) enum Question {
    Hogql(Box<HogqlQuery>),
    Events(Box<EventsQuery>),
    Insight(Box<Insight>),
    Actors(Box<ActorsQuery>),
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct DateRange {
    #[serde(default)]
    pub date_from: Option<String>,
    #[serde(default)]
    pub date_to: Option<String>,
    #[serde(default, rename = "explicitDate")]
    pub _explicit: Option<bool>,
}

/// Filters and variables of a dashboard or of the request, on top of the question's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overrides {
    /// As they were sent, for kinds that read more of them; the lowest layer first.
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

    /// Filters of all layers, each of which must hold.
    pub fn properties(&self) -> impl Iterator<Item = &Json> {
        self.filters.iter().filter_map(|layer| layer.get("properties"))
    }

    /// Dates that are given take the place of the question's, and of those in layers below.
    pub fn date_range(&self, own: Option<&DateRange>) -> DateRange {
        let text = |layer: &Map<String, Json>, name: &str| {
            let text = layer.get(name).and_then(Json::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let given = self.filters.iter().rev().find_map(|layer| {
            let (date_from, date_to) = (text(layer, "date_from"), text(layer, "date_to"));
            let is_given = date_from.is_some() || date_to.is_some();
            is_given.then_some(DateRange { date_from, date_to, _explicit: None })
        });
        given.or_else(|| own.cloned()).unwrap_or_default()
    }
}

/// One layer of filters, in the shape that they must have.
pub(crate) fn read_filters(layer: &Map<String, Json>) -> Result<insights::Overrides> {
    read_strictly(&Json::Object(layer.clone()))
}

/// Whether questions can be asked with filters of a dashboard or a tile.
pub fn check_filters(filters: &Map<String, Json>) -> std::result::Result<(), Refusal> {
    let read: insights::Overrides = model::read(&Json::Object(filters.clone()))?;
    read.check().map_err(|(attr, why)| Refusal {
        attr: attr.into(),
        code: "invalid_input",
        detail: why.to_string(),
    })
}

/// Whether every question can be asked with filters of a project's own.
pub fn check_properties(filters: &Json) -> Result<()> {
    let on_top = insights::Overrides { properties: filters.clone(), ..Default::default() };
    on_top.check().map_err(|(_, why)| why.into())
}

/// Whether events can be held against a filter; answers the cohorts that it names.
pub fn check_filter(filter: &Map<String, Json>) -> Result<BTreeSet<CohortId>> {
    Ok(insights::check_filter(filter)?)
}

/// What is asked, out of what only says how it is shown. A saved insight is named by its short id.
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

/// Whether a query is a question that can be answered. Whatever it names may still be missing, and
/// of kinds that are not built nothing is known.
pub fn check(query: &Json) -> Result<()> {
    match unwrap(query)? {
        Unwrapped::Saved(_) => Ok(()),
        Unwrapped::Query(query) => match Question::of_known_kind(kind(query)?, query)? {
            Some(question) => question.check(),
            None => Ok(()),
        },
    }
}

fn kind(query: &Map<String, Json>) -> Result<&str> {
    let kind = query.get("kind").and_then(Json::as_str);
    kind.ok_or_else(|| Error::Parse("The query needs a kind.".into()))
}

impl Question {
    pub fn parse(query: &Map<String, Json>) -> Result<Self> {
        let kind = kind(query)?;
        let unknown = || Error::Parse(format!("Unknown kind of query: {kind}."));
        Self::of_known_kind(kind, query)?.ok_or_else(unknown)
    }

    /// None of a kind that nobody here answers.
    fn of_known_kind(kind: &str, query: &Map<String, Json>) -> Result<Option<Self>> {
        Ok(match kind {
            "HogQLQuery" => Some(Self::Hogql(read(query)?)),
            "EventsQuery" => Some(Self::Events(read(query)?)),
            "ActorsQuery" | "PersonsQuery" => {
                Some(Self::Actors(Box::new(ActorsQuery::read(query)?)))
            }
            _ => match Insight::parse(kind, &Json::Object(query.clone())) {
                Some(insight) => Some(Self::Insight(Box::new(insight?))),
                None => None,
            },
        })
    }

    /// The insight that it asks, or asks about.
    pub fn insight_mut(&mut self) -> Option<&mut Insight> {
        match self {
            Self::Insight(insight) => Some(insight),
            Self::Actors(query) => query.behind.as_mut().map(|(insight, _)| &mut **insight),
            Self::Hogql(_) | Self::Events(_) => None,
        }
    }

    /// Asks for so many rows, unless it says itself how many.
    pub fn want_rows(&mut self, rows: u64) {
        match self {
            Self::Hogql(query) => query.rows = Some(rows),
            Self::Events(query) => query.limit = query.limit.or(Some(rows)),
            Self::Actors(query) => query.want_rows(rows),
            Self::Insight(_) => {}
        }
    }

    /// Whether it can be answered, whatever it names.
    fn check(&self) -> Result<()> {
        match self {
            Self::Hogql(query) => query.check(),
            Self::Events(query) => query.check(),
            Self::Insight(insight) => Ok(insight.check()?),
            Self::Actors(query) => query.check(),
        }
    }

    /// Whether a statement is one; what it names is looked for when it runs.
    pub fn check_text(&self) -> Result<()> {
        match self {
            Self::Hogql(query) => Ok(hogql::parse(&query.query).map(drop)?),
            Self::Events(_) | Self::Insight(_) | Self::Actors(_) => Ok(()),
        }
    }

    /// The actions that it names.
    pub fn actions(&self) -> BTreeSet<ActionId> {
        let insight = match self {
            Self::Hogql(_) => None,
            Self::Events(query) => return query.action_id.map(ActionId).into_iter().collect(),
            Self::Insight(insight) => Some(insight),
            Self::Actors(query) => query.behind.as_ref().map(|(insight, _)| insight),
        };
        let named = insight.into_iter().flat_map(|insight| insight.actions());
        named.map(ActionId).collect()
    }

    /// Statements name cohorts in their text, or in the filters that are put into it.
    pub fn needs(&self, overrides: &Overrides) -> facts::Needs {
        let own = match self {
            Self::Hogql(query) => format!("{query:?}"),
            Self::Events(query) => format!("{query:?}"),
            Self::Insight(insight) => return insight.needs(),
            Self::Actors(query) => {
                let mut needs = match &query.behind {
                    Some((insight, _)) => insight.needs(),
                    None => facts::Needs::default(),
                };
                needs.groups = true;
                needs.all_cohorts |= query.names_cohorts();
                return needs;
            }
        };
        let on_top = format!("{:?}", overrides.filters);
        let names = |text: &str| text.to_ascii_lowercase().contains("cohort");
        let all_cohorts = names(&own) || names(&on_top);
        let actions = self.actions();
        facts::Needs { groups: true, all_cohorts, actions, ..facts::Needs::default() }
    }
}

fn read<T: DeserializeOwned>(query: &Map<String, Json>) -> Result<Box<T>> {
    read_strictly(&Json::Object(strict_part(query))).map(Box::new)
}

/// A query without the keys that change nothing.
pub(crate) fn strict_part(query: &Map<String, Json>) -> Map<String, Json> {
    let mut query = query.clone();
    ALWAYS_ALLOWED.iter().for_each(|name| drop(query.remove(*name)));
    let kind = query.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
    insights::drop_inert(&kind, &mut query);
    query
}

pub(crate) fn read_strictly<T: DeserializeOwned>(sent: &Json) -> Result<T> {
    model::read(sent).map_err(|why| Error::Parse(why.in_query()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, key: &str, value: &Json) -> Result<Question> {
        let mut query = match kind {
            "HogQLQuery" => json!({ "kind": kind, "query": "select 1" }),
            _ => json!({ "kind": kind, "select": ["event"] }),
        };
        query[key] = value.clone();
        Question::parse(query.as_object().unwrap())
    }

    #[test]
    fn queries_take_null_and_defaults_and_refuse_what_would_change_the_answer() {
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
}
