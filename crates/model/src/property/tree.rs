//! Filter trees of cohorts: AND and OR over properties, cohorts and behavioral filters.

use serde_json::Value;

use super::{BehavioralFilter, Dialect, FilterError, Operator, Properties, PropertyFilter};
use crate::{CohortId, Timestamp};

/// Levels of a tree; also the length of a chain of cohorts that reference each other.
pub const DEPTH_MAX: usize = 20;

/// A node of a compiled tree.
#[derive(Clone, Debug)]
pub enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Property {
        filter: PropertyFilter,
        negated: bool,
    },
    /// Membership in another cohort.
    Cohort {
        id: CohortId,
        negated: bool,
    },
    /// Having performed an event or action.
    Behavioral {
        filter: BehavioralFilter,
        negated: bool,
    },
}

/// A condition that a person's properties cannot decide; the caller of [`Node::matches`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalCondition<'n> {
    Cohort(CohortId),
    Behavioral(&'n BehavioralFilter),
}

impl Node {
    /// Parses `{"type": "AND" | "OR", "values": […]}` and its leaves. An empty object matches
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
                let filter = BehavioralFilter::parse(fields)?;
                Ok(Self::Behavioral { filter, negated: is_negated(fields) })
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

    /// Evaluates the tree. `ask` decides cohorts and behavioral filters, and may fail.
    pub fn matches<E>(
        &self,
        properties: &(impl Properties + ?Sized),
        now: Timestamp,
        ask: &mut dyn FnMut(ExternalCondition<'_>) -> Result<bool, E>,
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
                // An empty OR matches, like an empty AND.
                Ok(nodes.is_empty())
            }
            Self::Property { filter, negated } => Ok(filter.matches(properties, now) != *negated),
            Self::Cohort { id, negated } => Ok(ask(ExternalCondition::Cohort(*id))? != *negated),
            Self::Behavioral { filter, negated } => {
                Ok(ask(ExternalCondition::Behavioral(filter))? != *negated)
            }
        }
    }

    /// Adds all behavioral filters of the tree.
    pub fn behavioral_filters<'n>(&'n self, found: &mut Vec<&'n BehavioralFilter>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.behavioral_filters(found));
            }
            Self::Property { .. } | Self::Cohort { .. } => {}
            Self::Behavioral { filter, .. } => found.push(filter),
        }
    }

    pub fn has_behavioral_filters(&self) -> bool {
        let mut leaves = Vec::new();
        self.behavioral_filters(&mut leaves);
        !leaves.is_empty()
    }

    /// Adds the properties that the tree reads.
    pub fn properties<'n>(&'n self, found: &mut Vec<&'n str>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.properties(found));
            }
            Self::Property { filter, .. } => found.extend(filter.properties()),
            Self::Cohort { .. } | Self::Behavioral { .. } => {}
        }
    }

    /// Adds the cohorts that the tree references directly.
    pub fn cohorts(&self, found: &mut Vec<CohortId>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.cohorts(found));
            }
            Self::Property { .. } | Self::Behavioral { .. } => {}
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
