//! Property filters over events: compiles [`FilterExpr`]s to predicates.

use std::collections::HashSet;

use model::elements::{self, Element};
use model::filter_expr::{ElementPart, Field, FilterExpr, FilteredRows, ValueTest};
use model::{CohortId, Timestamp, Zone};
use serde_json::Value as Json;
use warehouse::{ABSENT, ColumnKey, DenseIdSet, GROUP_TYPES, Predicate, Value};

use crate::matcher::Matcher;
use crate::read_view::ReadView;
use crate::sessions;
use crate::{Error, Result};

/// Property filters of events, compiled.
#[derive(Clone, Debug)]
pub struct Filters {
    keeps_all: bool,
    compiled: Compiled,
}

/// A [`FilterExpr`] with compiled tests.
#[derive(Clone, Debug)]
enum Compiled {
    All(Vec<Compiled>),
    Any(Vec<Compiled>),
    Not(Box<Compiled>),
    Event(ColumnKey, Matcher),
    Element(ElementPart, Matcher),
    Person(String, Matcher),
    PersonId(Matcher),
    DistinctIds(Matcher),
    Group(usize, String, Matcher),
    Session(String, Matcher),
    Cohort(CohortId),
    Hogql(String),
}

fn part_of(part: ElementPart, element: &Element) -> Option<&str> {
    match part {
        ElementPart::Text => element.text.as_deref(),
        ElementPart::Href => element.href.as_deref(),
        ElementPart::TagName => element.tag_name.as_deref(),
    }
}

fn unparsable() -> Error {
    Error::Invalid("Properties are unparsable!".into())
}

/// Parses a JSON array of filters of events, which are combined with AND, or one filter group. Filters
/// that cannot be compiled are an error already here, also if no event would be tested by them.
pub fn parse_filters(text: &str, now: Timestamp, zone: &Zone) -> Result<FilterExpr> {
    let json: Json = serde_json::from_str(text).map_err(|_| unparsable())?;
    let filters = match &json {
        Json::Array(_) | Json::Object(_) => read_filters(&json, now, zone)?,
        _ => return Err(unparsable()),
    };
    Filters::compile(&filters, zone)?;
    Ok(filters)
}

/// As [`parse_filters`]; null matches all events.
pub fn read_filters(json: &Json, now: Timestamp, zone: &Zone) -> Result<FilterExpr> {
    Ok(FilterExpr::parse(json, FilteredRows::Events, now, zone)?)
}

/// Whether evaluation needs persons, groups, sessions, cohorts or HogQL, not only the event.
pub fn needs_joins(filters: &FilterExpr) -> bool {
    match filters {
        FilterExpr::And(all) | FilterExpr::Or(all) => all.iter().any(needs_joins),
        FilterExpr::Not(part) => needs_joins(part),
        FilterExpr::Test(field, _) => {
            !matches!(field, Field::EventProperty(_) | Field::EventColumn(_) | Field::Element(_))
        }
        FilterExpr::InCohort(_) | FilterExpr::Hogql(_) => true,
    }
}

impl Filters {
    /// Parses filters and compiles them; null matches all events.
    pub fn read(json: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        Self::compile(&read_filters(json, now, zone)?, zone)
    }

    /// Compiles an expression over events. Stored dates without an offset are in the zone.
    pub fn compile(expr: &FilterExpr, zone: &Zone) -> Result<Self> {
        Ok(Self { keeps_all: expr.keeps_all(), compiled: Compiled::new(expr, zone)? })
    }

    /// Validates filters, which does not depend on the time and the zone.
    pub fn check(json: &Json) -> Result<()> {
        Self::read(json, Timestamp::from_micros(0), &Zone::named("UTC")).map(drop)
    }

    /// Compiles to a predicate over events; none if all events match.
    pub fn predicate(&self, view: &ReadView) -> Result<Option<Predicate>> {
        if self.keeps_all { Ok(None) } else { lower(&self.compiled, view).map(Some) }
    }
}

impl Compiled {
    fn new(expr: &FilterExpr, zone: &Zone) -> Result<Self> {
        let all = |exprs: &[FilterExpr]| -> Result<Vec<Self>> {
            exprs.iter().map(|expr| Self::new(expr, zone)).collect()
        };
        Ok(match expr {
            FilterExpr::And(exprs) => Self::All(all(exprs)?),
            FilterExpr::Or(exprs) => Self::Any(all(exprs)?),
            FilterExpr::Not(expr) => match &**expr {
                FilterExpr::Test(field, test) => Self::test(field, test, true, zone)?,
                expr => Self::Not(Box::new(Self::new(expr, zone)?)),
            },
            FilterExpr::Test(field, test) => Self::test(field, test, false, zone)?,
            FilterExpr::InCohort(id) => Self::Cohort(*id),
            FilterExpr::Hogql(text) => Self::Hogql(text.clone()),
        })
    }

    fn test(field: &Field, test: &ValueTest, negated: bool, zone: &Zone) -> Result<Self> {
        let matcher = Matcher::compile(test, negated, zone)?;
        Ok(match field {
            Field::EventProperty(key) => Self::Event(ColumnKey::Property(key.clone()), matcher),
            Field::EventColumn(name) => Self::Event(column(name)?, matcher),
            Field::Element(part) => Self::Element(*part, matcher),
            Field::PersonProperty(key) => Self::Person(key.clone(), matcher),
            Field::PersonId => Self::PersonId(matcher),
            Field::DistinctIds => Self::DistinctIds(matcher),
            Field::GroupProperty { index: Some(index), key } => {
                Self::Group(*index, key.clone(), matcher)
            }
            Field::GroupProperty { index: None, .. } => {
                return Err(Error::Invalid("Events are no groups.".into()));
            }
            Field::SessionField(name) => Self::Session(name.clone(), matcher),
        })
    }
}

fn column(name: &str) -> Result<ColumnKey> {
    let invalid = || Error::Invalid(format!("Events cannot be filtered by their '{name}' here."));
    event_column(name).ok_or_else(invalid)
}

/// The event column that a filter of type `event_metadata` names.
pub fn event_column(name: &str) -> Option<ColumnKey> {
    Some(match name {
        "event" => ColumnKey::Event,
        "distinct_id" => ColumnKey::DistinctId,
        "elements_chain" => ColumnKey::ElementsChain,
        "$session_id" | "$window_id" => ColumnKey::Property(name.to_owned()),
        _ => {
            let index = name.strip_prefix("$group_")?.parse().ok();
            ColumnKey::Group(index.filter(|index| *index < GROUP_TYPES)?)
        }
    })
}

/// Compiles to a predicate over the view's events.
fn lower(compiled: &Compiled, view: &ReadView) -> Result<Predicate> {
    let all = |parts: &[Compiled]| -> Result<Vec<Predicate>> {
        parts.iter().map(|part| lower(part, view)).collect()
    };
    let with_cleaning = |matcher: &Matcher| matcher.with_cleaning(&view.context.path_cleaning);
    Ok(match compiled {
        Compiled::All(parts) => Predicate::All(all(parts)?),
        Compiled::Any(parts) => Predicate::Any(all(parts)?),
        Compiled::Not(part) => Predicate::Not(Box::new(lower(part, view)?)),
        Compiled::Event(key, matcher) => {
            let matcher = with_cleaning(matcher);
            let search = matcher.search();
            Predicate::with_search(key.clone(), move |value| matcher.accepts(value), search)
        }
        Compiled::Element(part, matcher) => element_predicate(*part, &with_cleaning(matcher)),
        Compiled::DistinctIds(matcher) => distinct_id_predicate(&with_cleaning(matcher), view),
        Compiled::Person(key, matcher) => person_predicate(key, &with_cleaning(matcher), view),
        Compiled::PersonId(matcher) => {
            let matches =
                |actor| matcher.accepts(Some(Value::Text(&view.persons.uuid(actor).to_string())));
            Predicate::DistinctNos(view.persons.distinct_nos_of(matches))
        }
        Compiled::Group(index, key, matcher) => {
            group_predicate(*index, key, &with_cleaning(matcher), view)
        }
        Compiled::Session(key, matcher) => session_predicate(key, &with_cleaning(matcher), view)?,
        Compiled::Cohort(id) => cohort_predicate(*id, view)?,
        Compiled::Hogql(text) => view.expressions.condition(view, text)?,
    })
}

/// Events of persons with a matching distinct id; for a negated operator, all ids must match.
fn distinct_id_predicate(matcher: &Matcher, view: &ReadView) -> Predicate {
    let absent_matches = matcher.accepts(None);
    let matches = |text: &str| matcher.accepts(Some(Value::Text(text)));
    let different =
        view.persons.distinct_ids().filter(|(_, text, _)| matches(text) != absent_matches);
    let different: DenseIdSet = different.map(|(_, _, actor)| actor).collect();
    let fitting = |actor: u32| different.contains(actor) != absent_matches;
    Predicate::DistinctNos(view.persons.distinct_nos_of(fitting))
}

/// Events of persons with a matching property. Without a person the property is absent.
fn person_predicate(key: &str, matcher: &Matcher, view: &ReadView) -> Predicate {
    let column = view.persons.column(key);
    let absent_matches = matcher.accepts(None);
    let matches: Vec<bool> =
        column.dictionary.iter().map(|value| matcher.accepts(Some(value))).collect();
    let fitting = |actor: u32| match column.codes.get(actor as usize) {
        None | Some(&ABSENT) => absent_matches,
        Some(code) => matches[*code as usize],
    };
    Predicate::DistinctNos(view.persons.distinct_nos_of(fitting))
}

fn cohort_predicate(id: CohortId, view: &ReadView) -> Result<Predicate> {
    let Some(cohort) = view.cohorts.get(id) else {
        return Err(Error::Invalid(format!("Cohort {id} does not exist.")));
    };
    Ok(Predicate::DistinctNos(view.persons.distinct_nos_of(|actor| cohort.members.contains(actor))))
}

/// Events with a matching element in their chain; for a negated operator, all elements must match.
fn element_predicate(part: ElementPart, matcher: &Matcher) -> Predicate {
    let matcher = matcher.clone();
    Predicate::test(ColumnKey::ElementsChain, move |value| {
        let elements = match value {
            Some(Value::Text(chain)) => elements::parse(chain),
            _ => Vec::new(),
        };
        let texts = elements.iter().filter_map(|element| part_of(part, element));
        let matches = |text: &str| matcher.accepts(Some(Value::Text(text)));
        let mut texts = texts.peekable();
        match (texts.peek().is_some(), matcher.accepts(None)) {
            (false, absent_matches) => absent_matches,
            (true, true) => texts.all(matches),
            (true, false) => texts.any(matches),
        }
    })
}

/// Events of groups with a matching property.
fn group_predicate(index: usize, key: &str, matcher: &Matcher, view: &ReadView) -> Predicate {
    let absent_matches = matcher.accepts(None);
    let groups = view.groups.of_type(index);
    let different =
        groups.filter(|group| accepts(matcher, group.property(key).as_ref()) != absent_matches);
    let different: HashSet<String> = different.map(|group| group.key().to_owned()).collect();
    Predicate::test(ColumnKey::Group(index), move |value| {
        let is_different = match value {
            Some(Value::Text(key)) => different.contains(key),
            _ => false,
        };
        is_different != absent_matches
    })
}

/// Events of matching sessions.
fn session_predicate(key: &str, matcher: &Matcher, view: &ReadView) -> Result<Predicate> {
    let field = view
        .sessions
        .get(key)
        .ok_or_else(|| Error::Invalid("Filters of type 'session' cannot be used here.".into()))?;
    let matcher = matcher.clone();
    let id = ColumnKey::Property("$session_id".into());
    Ok(Predicate::test(id, move |id| sessions::accepts(&matcher, &*field, id)))
}

/// A property of a group, as the matcher reads stored values.
fn accepts(matcher: &Matcher, value: Option<&Json>) -> bool {
    let text = match value {
        None => return matcher.accepts(None),
        Some(value) => model::property::text(value),
    };
    matcher.accepts(value.map(|value| match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(_) => Value::Number(&text),
        Json::String(text) => Value::Text(text),
        Json::Array(_) | Json::Object(_) => Value::Json(&text),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FilterExpr> {
        let now = Timestamp::parse("2024-03-14T12:00:00Z").unwrap();
        parse_filters(text, now, &Zone::named("UTC"))
    }

    #[test]
    fn invalid_filters_are_rejected_with_a_reason() {
        let deep = format!("{}{}", r#"{"values":["#.repeat(22), "]}".repeat(22));
        let many = format!("[{}]", [r#"{"key":"a","value":1}"#; 101].join(","));
        for (text, why) in [
            ("{bad", "Properties are unparsable!"),
            ("1", "Properties are unparsable!"),
            ("[1]", "Properties are unparsable!"),
            (r#"{"a":1}"#, "Properties are unparsable!"),
            (r#"{"type":"XOR","values":[]}"#, "Properties are unparsable!"),
            (r#"[{"key":"a","operator":"like","value":1}]"#, "'like' is not an operator."),
            (r#"[{"key":"a","type":"planet","value":1}]"#, "Filters of type 'planet'"),
            (r#"[{"key":"id","type":"cohort","value":"mine"}]"#, "named by its number"),
            (r#"[{"key":"selector","type":"element","value":"a"}]"#, "their 'selector'"),
            (r#"[{"key":"a","type":"group","value":1}]"#, "needs a group_type_index"),
            (r#"[{"key":"timestamp","type":"event_metadata","value":1}]"#, "their 'timestamp'"),
            (deep.as_str(), "nested too deeply"),
            (many.as_str(), "more than 100 property filters"),
        ] {
            let refused = parse(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn filters_without_a_key_match_all_events() {
        for text in ["[]", "{}", r#"[{"value":1}]"#, r#"[{"key":"a","type":"flag"}]"#] {
            assert_eq!(parse(text).unwrap(), FilterExpr::default(), "{text}");
        }
        let person = parse(r#"[{"key":"a","type":"person","value":1}]"#).unwrap();
        assert!(needs_joins(&person));
    }
}
