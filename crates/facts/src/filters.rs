//! Property filters: parses the JSON that clients send and compiles it to predicates over events.

use std::collections::HashSet;

use model::property::{DEPTH_MAX, Operator};
use model::{CohortId, Timestamp};
use serde_json::{Map, Value as Json};
use warehouse::{ABSENT, ColumnKey, DenseIdSet, GROUP_TYPES, Predicate, Value};

use crate::dates::Zone;
use crate::elements::{self, Element};
use crate::matcher::{IS_CLEANED_PATH_EXACT, Matcher};
use crate::read_view::{Needs, ReadView};
use crate::sessions;
use crate::{Error, Result};

/// Filters of one query, in all groups.
const FILTERS_MAX: usize = 100;

/// A parsed and validated tree of property filters.
#[derive(Clone, Debug, Default)]
pub struct Filters(Tree);

#[derive(Clone, Debug)]
enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Event(ColumnKey, Matcher),
    Element(ElementPart, Matcher),
    Person(String, Matcher),
    /// By UUID.
    PersonId(Matcher),
    Group(usize, String, Matcher),
    Session(String, Matcher),
    Cohort {
        id: CohortId,
        outside: bool,
    },
    Hogql(String),
}

#[derive(Clone, Copy, Debug)]
enum ElementPart {
    Text,
    Href,
    TagName,
}

impl ElementPart {
    fn of(self, element: &Element) -> Option<&str> {
        match self {
            Self::Text => element.text.as_deref(),
            Self::Href => element.href.as_deref(),
            Self::TagName => element.tag_name.as_deref(),
        }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

type Fields = Map<String, Json>;

fn unparsable() -> Error {
    Error::Invalid("Properties are unparsable!".into())
}

struct Parser<'a> {
    now: Timestamp,
    zone: &'a Zone,
    left: usize,
}

impl Filters {
    /// Parses a JSON array of filters, which are combined with AND, or one filter group.
    pub fn parse(text: &str, now: Timestamp, zone: &Zone) -> Result<Self> {
        let json: Json = serde_json::from_str(text).map_err(|_| unparsable())?;
        match &json {
            Json::Array(_) | Json::Object(_) => Self::read(&json, now, zone),
            _ => Err(unparsable()),
        }
    }

    /// As [`Filters::parse`]; null matches all events.
    pub fn read(json: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        let mut parser = Parser { now, zone, left: FILTERS_MAX };
        match json {
            Json::Array(all) => Ok(Self(Tree::All(parser.list(all, 0)?))),
            Json::Object(group) if group.contains_key("values") => {
                Ok(Self(parser.group(group, 0)?))
            }
            Json::Object(empty) if empty.is_empty() => Ok(Self::default()),
            Json::Null => Ok(Self::default()),
            _ => Err(unparsable()),
        }
    }

    /// Validates filters, which does not depend on the time and the zone.
    pub fn check(json: &Json) -> Result<()> {
        Self::read(json, Timestamp::from_micros(0), &Zone::named("UTC")).map(drop)
    }

    /// Conjunction.
    pub fn and(self, other: Self) -> Self {
        Self(Tree::All(vec![self.0, other.0]))
    }

    /// Compiles to a predicate over events; none if all events match.
    pub fn predicate(&self, view: &ReadView) -> Result<Option<Predicate>> {
        if self.0.matches_all() { Ok(None) } else { lower(&self.0, view).map(Some) }
    }

    /// Adds what the view must load for these filters.
    pub fn needs(&self, needs: &mut Needs) {
        self.0.needs(needs);
    }

    /// Whether evaluation needs persons, groups, sessions, cohorts or HogQL, not only the event.
    pub fn needs_joins(&self) -> bool {
        self.0.needs_joins()
    }
}

impl Tree {
    fn matches_all(&self) -> bool {
        matches!(self, Self::All(all) if all.iter().all(Self::matches_all))
    }

    fn needs(&self, needs: &mut Needs) {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().for_each(|tree| tree.needs(needs)),
            Self::Group(..) => needs.groups = true,
            Self::Session(field, _) => drop(needs.sessions.insert(field.clone())),
            Self::Cohort { id, .. } => drop(needs.cohorts.insert(*id)),
            // Only the compiler knows what an expression references.
            Self::Hogql(text) => {
                (needs.groups, needs.all_cohorts) = (true, true);
                needs.expressions.insert(text.clone());
            }
            Self::Event(..) | Self::Element(..) | Self::Person(..) | Self::PersonId(_) => {}
        }
    }

    fn needs_joins(&self) -> bool {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().any(Self::needs_joins),
            Self::Event(..) | Self::Element(..) => false,
            _ => true,
        }
    }
}

impl Parser<'_> {
    fn list(&mut self, all: &[Json], depth: usize) -> Result<Vec<Tree>> {
        let mut trees = Vec::new();
        for one in all {
            let Json::Object(fields) = one else { return Err(unparsable()) };
            if fields.contains_key("values") {
                trees.push(self.group(fields, depth + 1)?);
            } else if let Some(tree) = self.filter(fields)? {
                trees.push(tree);
            }
        }
        Ok(trees)
    }

    fn group(&mut self, fields: &Fields, depth: usize) -> Result<Tree> {
        if depth > DEPTH_MAX {
            return Err(Error::Invalid("Property filters are nested too deeply.".into()));
        }
        let Some(Json::Array(values)) = fields.get("values") else { return Err(unparsable()) };
        let trees = self.list(values, depth)?;
        match fields.get("type").and_then(Json::as_str).unwrap_or("AND") {
            "AND" => Ok(Tree::All(trees)),
            // An empty OR matches all events.
            "OR" if trees.is_empty() => Ok(Tree::default()),
            "OR" => Ok(Tree::Any(trees)),
            _ => Err(unparsable()),
        }
    }

    /// Parses one filter; none if it has no key, which matches all events.
    fn filter(&mut self, fields: &Fields) -> Result<Option<Tree>> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Error::Invalid(format!("There are more than {FILTERS_MAX} property filters."))
        })?;
        let key = match fields.get("key") {
            Some(Json::String(key)) if !key.is_empty() => key.clone(),
            Some(Json::Number(key)) => key.to_string(),
            _ => return Ok(None),
        };
        let matcher = || self.matcher(fields);
        let kind = fields.get("type").and_then(Json::as_str).unwrap_or("event");
        Ok(Some(match kind {
            "event" => Tree::Event(ColumnKey::Property(key), matcher()?),
            "feature" => {
                let key =
                    if key.starts_with("$feature/") { key } else { format!("$feature/{key}") };
                Tree::Event(ColumnKey::Property(key), matcher()?)
            }
            "event_metadata" if key == "person_id" => Tree::PersonId(matcher()?),
            "event_metadata" => Tree::Event(column(&key)?, matcher()?),
            "element" => Tree::Element(element_part(&key, fields)?, matcher()?),
            "cohort" | "static-cohort" => cohort(fields)?,
            "hogql" => Tree::Hogql(key),
            "person" => Tree::Person(key, matcher()?),
            "group" => Tree::Group(group_index(fields)?, key, matcher()?),
            "session" => Tree::Session(key, matcher()?),
            // A condition on other flags, which events always pass.
            "flag" => return Ok(None),
            other => {
                let kinds = "event, feature, event_metadata, element, person, group, session, \
                             cohort and hogql";
                let detail =
                    format!("Filters of type '{other}' cannot be used here; only {kinds} can.");
                return Err(Error::Invalid(detail));
            }
        }))
    }

    fn matcher(&self, fields: &Fields) -> Result<Matcher> {
        let value = fields.get("value").unwrap_or(&Json::Null);
        let operator = match fields.get("operator") {
            Some(Json::String(word)) if word == IS_CLEANED_PATH_EXACT => {
                return Matcher::cleaned(value, self.zone);
            }
            None | Some(Json::Null) => Operator::Exact,
            Some(Json::String(word)) => {
                Operator::parse(word).map_err(|why| Error::Invalid(why.to_string()))?
            }
            Some(_) => return Err(unparsable()),
        };
        Matcher::new(operator, value, self.now, self.zone)
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

fn element_part(key: &str, fields: &Fields) -> Result<ElementPart> {
    let plain =
        matches!(fields.get("operator").and_then(Json::as_str), None | Some("exact" | "is_not"));
    match key {
        "text" => Ok(ElementPart::Text),
        "href" => Ok(ElementPart::Href),
        "tag_name" if plain => Ok(ElementPart::TagName),
        "tag_name" => {
            Err(Error::Invalid("tag_name can only be compared with exact or is_not.".into()))
        }
        _ => Err(Error::Invalid(format!("Elements cannot be filtered by their '{key}' here."))),
    }
}

fn cohort(fields: &Fields) -> Result<Tree> {
    let id = fields.get("value").and_then(CohortId::from_filter);
    let id = id.ok_or_else(|| Error::Invalid("A cohort is named by its number.".into()))?;
    let outside = match fields.get("operator").and_then(Json::as_str) {
        None | Some("in" | "exact") => false,
        Some("not_in" | "is_not") => true,
        Some(other) => {
            let detail = format!("The operator '{other}' cannot be used with a cohort.");
            return Err(Error::Invalid(detail));
        }
    };
    Ok(Tree::Cohort { id, outside })
}

fn group_index(fields: &Fields) -> Result<usize> {
    let index = fields.get("group_type_index").and_then(Json::as_u64);
    index.map(|index| index as usize).filter(|index| *index < GROUP_TYPES).ok_or_else(|| {
        Error::Invalid("A filter of type 'group' needs a group_type_index from 0 to 4.".into())
    })
}

/// Compiles a tree to a predicate.
fn lower(tree: &Tree, view: &ReadView) -> Result<Predicate> {
    let all = |trees: &[Tree]| -> Result<Vec<Predicate>> {
        trees.iter().map(|tree| lower(tree, view)).collect()
    };
    let with_cleaning = |matcher: &Matcher| matcher.with_cleaning(&view.path_cleaning);
    Ok(match tree {
        Tree::All(trees) => Predicate::All(all(trees)?),
        Tree::Any(trees) => Predicate::Any(all(trees)?),
        Tree::Event(key, matcher) => {
            let matcher = with_cleaning(matcher);
            let search = matcher.search();
            Predicate::with_search(key.clone(), move |value| matcher.accepts(value), search)
        }
        Tree::Element(part, matcher) => element_predicate(*part, &with_cleaning(matcher)),
        Tree::Person(key, matcher) if key == "distinct_id" => {
            distinct_id_predicate(&with_cleaning(matcher), view)
        }
        Tree::Person(key, matcher) => person_predicate(key, &with_cleaning(matcher), view),
        Tree::PersonId(matcher) => {
            let matches =
                |actor| matcher.accepts(Some(Value::Text(&view.persons.uuid(actor).to_string())));
            Predicate::DistinctNos(view.persons.distinct_nos_of(matches))
        }
        Tree::Group(index, key, matcher) => {
            group_predicate(*index, key, &with_cleaning(matcher), view)
        }
        Tree::Session(key, matcher) => session_predicate(key, &with_cleaning(matcher), view)?,
        Tree::Cohort { id, outside } => cohort_predicate(*id, *outside, view)?,
        Tree::Hogql(text) => view.expressions.condition(view, text)?,
    })
}

/// Events of persons with a matching distinct id.
fn distinct_id_predicate(matcher: &Matcher, view: &ReadView) -> Predicate {
    let ids =
        view.persons.distinct_ids().filter(|(_, text, _)| matcher.accepts(Some(Value::Text(text))));
    let actors: DenseIdSet = ids.map(|(_, _, actor)| actor).collect();
    Predicate::DistinctNos(view.persons.distinct_nos_of(|actor| actors.contains(actor)))
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

fn cohort_predicate(id: CohortId, outside: bool, view: &ReadView) -> Result<Predicate> {
    let Some(cohort) = view.cohorts.get(id) else {
        return Err(Error::Invalid(format!("Cohort {id} does not exist.")));
    };
    let inside = Predicate::DistinctNos(
        view.persons.distinct_nos_of(|actor| cohort.members.contains(actor)),
    );
    Ok(if outside { Predicate::Not(Box::new(inside)) } else { inside })
}

/// Events with a matching element in their chain; for a negated operator, all elements must match.
fn element_predicate(part: ElementPart, matcher: &Matcher) -> Predicate {
    let matcher = matcher.clone();
    Predicate::test(ColumnKey::ElementsChain, move |value| {
        let elements = match value {
            Some(Value::Text(chain)) => elements::parse(chain),
            _ => Vec::new(),
        };
        let texts = elements.iter().filter_map(|element| part.of(element));
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
        groups.filter(|(_, group)| accepts(matcher, group.properties.get(key)) != absent_matches);
    let different: HashSet<String> = different.map(|(key, _)| key.to_owned()).collect();
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

    fn parse(text: &str) -> Result<Filters> {
        let now = Timestamp::parse("2024-03-14T12:00:00Z").unwrap();
        Filters::parse(text, now, &Zone::named("UTC"))
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
            assert!(matches!(parse(text).unwrap().0, Tree::All(all) if all.is_empty()), "{text}");
        }
        let person = parse(r#"[{"key":"a","type":"person","value":1}]"#).unwrap();
        assert!(person.needs_joins());
    }
}
