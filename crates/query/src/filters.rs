//! Property filters as clients send them, and what they ask of events, persons and groups.

use catalog::Catalog;
use model::property::{DEPTH_MAX, Operator};
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value as Json};
use warehouse::{GROUP_TYPES, Key, Numbers, Predicate, Value};

use crate::dates::Zone;
use crate::matcher::Matcher;
use crate::{Error, Result};

/// Filters of one question, in all its groups.
const FILTERS_MAX: usize = 100;
/// Persons and groups looked at in one go while their properties are asked for.
const SCAN_ROWS: i64 = 4_096;

/// Filters that were read and make sense.
#[derive(Clone, Debug, Default)]
pub struct Filters(Tree);

#[derive(Clone, Debug)]
enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Event(Key, Matcher),
    Person(String, Matcher),
    Group(usize, String, Matcher),
}

impl Default for Tree {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

type Fields = Map<String, Json>;

fn unparsable() -> Error {
    Error::Refused("Properties are unparsable!".into())
}

struct Parser<'a> {
    now: Timestamp,
    zone: &'a Zone,
    left: usize,
}

impl Filters {
    /// Reads a JSON array of filters, all of which must hold, or one group.
    pub fn parse(text: &str, now: Timestamp, zone: &Zone) -> Result<Self> {
        let json: Json = serde_json::from_str(text).map_err(|_| unparsable())?;
        let mut parser = Parser { now, zone, left: FILTERS_MAX };
        match &json {
            Json::Array(all) => Ok(Self(Tree::All(parser.list(all, 0)?))),
            Json::Object(group) if group.contains_key("values") => {
                Ok(Self(parser.group(group, 0)?))
            }
            Json::Object(empty) if empty.is_empty() => Ok(Self::default()),
            _ => Err(unparsable()),
        }
    }

    /// Filters as a list, all of which must hold.
    pub(crate) fn of(filters: &[Fields], now: Timestamp, zone: &Zone) -> Result<Self> {
        let mut parser = Parser { now, zone, left: FILTERS_MAX };
        let filters: Vec<Json> = filters.iter().cloned().map(Json::Object).collect();
        Ok(Self(Tree::All(parser.list(&filters, 0)?)))
    }

    /// What events must pass; none when every event does.
    pub(crate) async fn predicate(
        &self,
        catalog: &Catalog,
        project: ProjectId,
    ) -> Result<Option<Predicate>> {
        match &self.0 {
            Tree::All(all) if all.is_empty() => Ok(None),
            tree => Box::pin(lower(tree, catalog, project)).await.map(Some),
        }
    }

    /// Whether answering needs the properties of all persons or groups.
    pub(crate) fn scans(&self) -> bool {
        self.0.scans()
    }
}

impl Tree {
    fn scans(&self) -> bool {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().any(Self::scans),
            Self::Event(..) => false,
            Self::Person(..) | Self::Group(..) => true,
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
            return Err(Error::Refused("Property filters are nested too deeply.".into()));
        }
        let Some(Json::Array(values)) = fields.get("values") else { return Err(unparsable()) };
        let trees = self.list(values, depth)?;
        match fields.get("type").and_then(Json::as_str).unwrap_or("AND") {
            "AND" => Ok(Tree::All(trees)),
            // Of no alternatives nothing is asked.
            "OR" if trees.is_empty() => Ok(Tree::default()),
            "OR" => Ok(Tree::Any(trees)),
            _ => Err(unparsable()),
        }
    }

    /// One filter; none when it names nothing, which asks for nothing.
    fn filter(&mut self, fields: &Fields) -> Result<Option<Tree>> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Error::Refused(format!("There are more than {FILTERS_MAX} property filters."))
        })?;
        let key = match fields.get("key") {
            Some(Json::String(key)) if !key.is_empty() => key.clone(),
            Some(Json::Number(key)) => key.to_string(),
            _ => return Ok(None),
        };
        let matcher = || self.matcher(fields);
        let kind = fields.get("type").and_then(Json::as_str).unwrap_or("event");
        Ok(Some(match kind {
            "event" => Tree::Event(Key::Property(key), matcher()?),
            "feature" => {
                let key =
                    if key.starts_with("$feature/") { key } else { format!("$feature/{key}") };
                Tree::Event(Key::Property(key), matcher()?)
            }
            "event_metadata" => Tree::Event(column(&key)?, matcher()?),
            "person" => Tree::Person(key, matcher()?),
            "group" => Tree::Group(group_index(fields)?, key, matcher()?),
            // It concerns flags, and is true of every event.
            "flag" => return Ok(None),
            other => {
                let kinds = "event, feature, event_metadata, person and group";
                let detail =
                    format!("Filters of type '{other}' cannot be used here; only {kinds} can.");
                return Err(Error::Refused(detail));
            }
        }))
    }

    fn matcher(&self, fields: &Fields) -> Result<Matcher> {
        let operator = match fields.get("operator") {
            None | Some(Json::Null) => Operator::Exact,
            Some(Json::String(word)) => {
                Operator::parse(word).map_err(|why| Error::Refused(why.to_string()))?
            }
            Some(_) => return Err(unparsable()),
        };
        let value = fields.get("value").unwrap_or(&Json::Null);
        Matcher::new(operator, value, self.now, self.zone)
    }
}

fn column(name: &str) -> Result<Key> {
    let group = name.strip_prefix("$group_").and_then(|index| index.parse().ok());
    match name {
        "event" => Ok(Key::Event),
        "distinct_id" => Ok(Key::DistinctId),
        "elements_chain" => Ok(Key::ElementsChain),
        "$session_id" | "$window_id" => Ok(Key::Property(name.to_owned())),
        _ => match group {
            Some(index) if index < GROUP_TYPES => Ok(Key::Group(index)),
            _ => Err(Error::Refused(format!("Events cannot be filtered by their '{name}' here."))),
        },
    }
}

fn group_index(fields: &Fields) -> Result<usize> {
    let index = fields.get("group_type_index").and_then(Json::as_u64);
    index.map(|index| index as usize).filter(|index| *index < GROUP_TYPES).ok_or_else(|| {
        Error::Refused("A filter of type 'group' needs a group_type_index from 0 to 4.".into())
    })
}

async fn lower(tree: &Tree, catalog: &Catalog, project: ProjectId) -> Result<Predicate> {
    Ok(match tree {
        Tree::All(trees) => Predicate::All(lower_all(trees, catalog, project).await?),
        Tree::Any(trees) => Predicate::Any(lower_all(trees, catalog, project).await?),
        Tree::Event(key, matcher) => {
            let matcher = matcher.clone();
            Predicate::test(key.clone(), move |value| matcher.accepts(value))
        }
        Tree::Person(key, matcher) => of_persons(key, matcher, catalog, project).await?,
        Tree::Group(index, key, matcher) => {
            of_groups(*index, key, matcher, catalog, project).await?
        }
    })
}

async fn lower_all(
    trees: &[Tree],
    catalog: &Catalog,
    project: ProjectId,
) -> Result<Vec<Predicate>> {
    let mut predicates = Vec::with_capacity(trees.len());
    for tree in trees {
        predicates.push(Box::pin(lower(tree, catalog, project)).await?);
    }
    Ok(predicates)
}

/// A property of a person or group, as the matcher reads stored values.
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

/// Events whose person has a fitting property. Those without a person have no properties.
async fn of_persons(
    key: &str,
    matcher: &Matcher,
    catalog: &Catalog,
    project: ProjectId,
) -> Result<Predicate> {
    // What differs from having no property at all is all that needs to be remembered.
    let missing_fits = matcher.accepts(None);
    let mut different = Numbers::new();
    let mut after = None;
    loop {
        let persons = catalog.person_properties(project, after, SCAN_ROWS).await?;
        let Some((last, _)) = persons.last() else { break };
        after = Some(*last);
        for (no, properties) in &persons {
            if accepts(matcher, properties.get(key)) != missing_fits {
                different.insert(no.0);
            }
        }
    }
    let mut events = Numbers::new();
    let mut after = None;
    loop {
        let ids = catalog.person_numbers(project, after, SCAN_ROWS).await?;
        let Some((last, _)) = ids.last() else { break };
        after = Some(*last);
        events.extend(ids.iter().filter(|(_, no)| different.contains(no.0)).map(|(id, _)| id.0));
    }
    let predicate = Predicate::Among(events);
    Ok(if missing_fits { Predicate::Not(Box::new(predicate)) } else { predicate })
}

async fn of_groups(
    index: usize,
    key: &str,
    matcher: &Matcher,
    catalog: &Catalog,
    project: ProjectId,
) -> Result<Predicate> {
    let missing_fits = matcher.accepts(None);
    let mut different = std::collections::HashSet::new();
    let mut after = None;
    loop {
        let groups =
            catalog.group_properties(project, index as u8, after.as_deref(), SCAN_ROWS).await?;
        let Some((last, _)) = groups.last() else { break };
        after = Some(last.clone());
        let fitting = |properties: &Fields| accepts(matcher, properties.get(key));
        let found = groups.into_iter().filter(|(_, own)| fitting(own) != missing_fits);
        different.extend(found.map(|(key, _)| key));
    }
    Ok(Predicate::test(Key::Group(index), move |value| {
        let is_different = match value {
            Some(Value::Text(key)) => different.contains(key),
            _ => false,
        };
        is_different != missing_fits
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
    fn what_cannot_be_read_is_refused_with_a_reason() {
        let deep = format!("{}{}", r#"{"values":["#.repeat(22), "]}".repeat(22));
        let many = format!("[{}]", [r#"{"key":"a","value":1}"#; 101].join(","));
        for (text, why) in [
            ("{bad", "Properties are unparsable!"),
            ("1", "Properties are unparsable!"),
            ("[1]", "Properties are unparsable!"),
            (r#"{"a":1}"#, "Properties are unparsable!"),
            (r#"{"type":"XOR","values":[]}"#, "Properties are unparsable!"),
            (r#"[{"key":"a","operator":"like","value":1}]"#, "'like' is not an operator."),
            (r#"[{"key":"1","type":"cohort","value":1}]"#, "Filters of type 'cohort'"),
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
    fn filters_that_name_nothing_ask_for_nothing() {
        for text in ["[]", "{}", r#"[{"value":1}]"#, r#"[{"key":"a","type":"flag"}]"#] {
            assert!(matches!(parse(text).unwrap().0, Tree::All(all) if all.is_empty()), "{text}");
        }
        assert!(parse(r#"[{"key":"a","type":"person","value":1}]"#).unwrap().scans());
    }
}
