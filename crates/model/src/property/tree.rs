//! Trees of filters, as cohorts keep them: all or any of what is below.

use serde_json::Value;

use super::{Behaviour, Dialect, FilterError, Operator, Properties, PropertyFilter};
use crate::{CohortId, Timestamp};

/// Levels of a tree; also how deep cohorts may refer to cohorts.
pub const DEPTH_MAX: usize = 20;

/// A tree, compiled.
#[derive(Clone, Debug)]
pub enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Property {
        filter: PropertyFilter,
        negated: bool,
    },
    /// Belonging to another cohort, or not.
    Cohort {
        id: CohortId,
        negated: bool,
    },
    /// Having done something, or not.
    Did {
        behaviour: Behaviour,
        negated: bool,
    },
}

/// What a person's properties do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere<'n> {
    Cohort(CohortId),
    Behaviour(&'n Behaviour),
}

/// What a tree cannot hold without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs<'n> {
    /// Properties that are there, whatever they hold.
    pub properties: Vec<&'n str>,
    pub cohorts: Vec<CohortId>,
}

impl Node {
    /// Reads `{"type": "AND" | "OR", "values": […]}` and the leaves below it. An empty object is
    /// everyone.
    pub fn parse(tree: &Value, dialect: &Dialect) -> Result<Self, FilterError> {
        Self::parse_at(tree, dialect, 0)
    }

    fn parse_at(tree: &Value, dialect: &Dialect, depth: usize) -> Result<Self, FilterError> {
        if depth > DEPTH_MAX {
            return Err(FilterError::Shape("Conditions are nested too deeply."));
        }
        let fields = tree.as_object().ok_or(FilterError::Shape("A condition is an object."))?;
        if fields.is_empty() {
            return Ok(Self::All(Vec::new()));
        }
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or("person");
        let below = || match fields.get("values") {
            Some(Value::Array(values)) => {
                values.iter().map(|value| Self::parse_at(value, dialect, depth + 1)).collect()
            }
            _ => Err(FilterError::Shape("AND and OR need a list of values.")),
        };
        match kind {
            "AND" => Ok(Self::All(below()?)),
            "OR" => Ok(Self::Any(below()?)),
            "person" => Self::property(fields, dialect),
            "cohort" | "precalculated-cohort" | "static-cohort" => Self::cohort(fields),
            "behavioral" => {
                let behaviour = Behaviour::parse(fields)?;
                Ok(Self::Did { behaviour, negated: is_negated(fields) })
            }
            _ => Err(FilterError::Shape(
                "Only person properties, cohorts and behavior can be evaluated.",
            )),
        }
    }

    fn property(fields: &Fields, dialect: &Dialect) -> Result<Self, FilterError> {
        let key = key(fields)?;
        let operator = operator(fields)?;
        let value = fields.get("value").unwrap_or(&Value::Null);
        let filter = PropertyFilter::compile(&key, operator, value, dialect);
        Ok(Self::Property { filter, negated: is_negated(fields) })
    }

    fn cohort(fields: &Fields) -> Result<Self, FilterError> {
        let value = fields.get("value").unwrap_or(&Value::Null);
        let id = CohortId::from_json(value)
            .ok_or(FilterError::Shape("A cohort is named by its number."))?;
        let excluded = operator(fields)? == Operator::NotIn;
        Ok(Self::Cohort { id, negated: excluded != is_negated(fields) })
    }

    /// Whether it holds. `ask` knows other cohorts and what was done, and may fail.
    pub fn matches<E>(
        &self,
        properties: &(impl Properties + ?Sized),
        now: Timestamp,
        ask: &mut dyn FnMut(Elsewhere<'_>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        match self {
            Self::All(nodes) => {
                for node in nodes {
                    if !node.matches(properties, now, ask)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(nodes) => {
                for node in nodes {
                    if node.matches(properties, now, ask)? {
                        return Ok(true);
                    }
                }
                // Like an empty list of conditions, an empty alternative asks for nothing.
                Ok(nodes.is_empty())
            }
            Self::Property { filter, negated } => Ok(filter.matches(properties, now) != *negated),
            Self::Cohort { id, negated } => Ok(ask(Elsewhere::Cohort(*id))? != *negated),
            Self::Did { behaviour, negated } => {
                Ok(ask(Elsewhere::Behaviour(behaviour))? != *negated)
            }
        }
    }

    /// What it cannot hold without, so that nobody else needs to be looked at.
    pub fn needs(&self) -> Needs<'_> {
        let mut needs = Needs::default();
        self.add_needs(&mut needs);
        needs
    }

    fn add_needs<'n>(&'n self, needs: &mut Needs<'n>) {
        match self {
            Self::All(nodes) => nodes.iter().for_each(|node| node.add_needs(needs)),
            Self::Any(nodes) => {
                if let [only] = &nodes[..] {
                    only.add_needs(needs);
                }
            }
            Self::Property { filter, negated: false } => needs.properties.extend(filter.needs()),
            Self::Cohort { id, negated: false } => needs.cohorts.push(*id),
            Self::Property { .. } | Self::Cohort { .. } | Self::Did { .. } => {}
        }
    }

    /// What it asks people to have done.
    pub fn behaviours<'n>(&'n self, found: &mut Vec<&'n Behaviour>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.behaviours(found));
            }
            Self::Property { .. } | Self::Cohort { .. } => {}
            Self::Did { behaviour, .. } => found.push(behaviour),
        }
    }

    pub fn asks_behaviour(&self) -> bool {
        let mut found = Vec::new();
        self.behaviours(&mut found);
        !found.is_empty()
    }

    /// The cohorts it names.
    pub fn cohorts(&self, found: &mut Vec<CohortId>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.cohorts(found));
            }
            Self::Property { .. } | Self::Did { .. } => {}
            Self::Cohort { id, .. } => found.push(*id),
        }
    }
}

type Fields = serde_json::Map<String, Value>;

fn key(fields: &Fields) -> Result<String, FilterError> {
    match fields.get("key") {
        Some(Value::String(key)) => Ok(key.clone()),
        Some(Value::Number(key)) => Ok(key.to_string()),
        _ => Err(FilterError::Shape("A condition needs a key.")),
    }
}

fn operator(fields: &Fields) -> Result<Operator, FilterError> {
    match fields.get("operator") {
        None | Some(Value::Null) => Ok(Operator::Exact),
        Some(Value::String(word)) => Operator::parse(word),
        Some(_) => Err(FilterError::Shape("An operator is a word.")),
    }
}

fn is_negated(fields: &Fields) -> bool {
    fields.get("negation").and_then(Value::as_bool).unwrap_or(false)
}
