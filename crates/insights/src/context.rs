//! What all kinds of questions need on their way: which events a node means, and when.

use std::collections::BTreeSet;

use facts::{Filters, ReadView};
use model::{ActionId, Timestamp};
use serde_json::Value as Json;
use warehouse::{Filter, Key, Predicate, Value};

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::range::Dates;
use crate::scan::Scan;
use crate::spec::{Base, Node, NodeKind};
use crate::{Error, Result};

/// Nodes inside a group of nodes.
const NODES_MAX: usize = 100;

pub(crate) struct QueryContext<'a> {
    pub view: &'a ReadView,
    pub limits: &'a QueryLimits,
    pub dates: Dates,
    pub base: &'a Base,
    /// Who reads expressions, if anybody does.
    pub hogql: Option<&'a HogqlCompiler>,
    /// What every event must pass.
    common: Option<Predicate>,
}

/// Events by their name and by a condition.
#[derive(Clone, Debug)]
pub(crate) struct EventSelection {
    events: Option<BTreeSet<String>>,
    predicate: Option<Predicate>,
}

fn all(parts: impl IntoIterator<Item = Option<Predicate>>) -> Option<Predicate> {
    let mut parts: Vec<Predicate> = parts.into_iter().flatten().collect();
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Predicate::All(parts)),
    }
}

impl EventSelection {
    pub fn everything() -> Self {
        Self { events: None, predicate: None }
    }

    pub fn and(mut self, predicate: Option<Predicate>) -> Self {
        self.predicate = all([self.predicate, predicate]);
        self
    }

    pub fn named(mut self, events: Option<BTreeSet<String>>) -> Self {
        self.events = events;
        self
    }

    /// As a condition alone.
    pub fn as_predicate(&self) -> Predicate {
        let named = self.events.clone().map(|events| {
            Predicate::test(Key::Event, move |value| match value {
                Some(Value::Text(event)) => events.contains(event),
                _ => false,
            })
        });
        let parts = [named, self.predicate.clone()];
        Predicate::All(parts.into_iter().flatten().collect())
    }

    /// Both moments are included.
    pub fn filter(&self, from: i64, to: i64) -> Filter {
        Filter {
            events: self.events.clone(),
            after: from.checked_sub(1).map(Timestamp::from_micros),
            before: to.checked_add(1).map(Timestamp::from_micros),
            predicate: self.predicate.clone(),
            ..Filter::default()
        }
    }
}

impl<'a> QueryContext<'a> {
    pub fn new(
        view: &'a ReadView,
        limits: &'a QueryLimits,
        base: &'a Base,
        hogql: Option<&'a HogqlCompiler>,
    ) -> Result<Self> {
        let dates = Dates::new(view);
        let mut context = Self { view, limits, dates, base, hogql, common: None };
        let tested = match base.filter_test_accounts {
            true => view.test_accounts()?.predicate(view)?,
            false => None,
        };
        context.common = all([context.condition(&base.properties)?, tested]);
        Ok(context)
    }

    pub fn condition(&self, filters: &Json) -> Result<Option<Predicate>> {
        let filters = Filters::read(filters, self.view.now, &self.view.zone)?;
        Ok(filters.predicate(self.view)?)
    }

    /// Events that pass what every event must pass.
    pub fn everything(&self) -> EventSelection {
        EventSelection::everything().and(self.common.clone())
    }

    /// The events a node names, whatever their properties; none when its action is gone.
    pub fn named(&self, node: &Node) -> Result<Option<EventSelection>> {
        let everything = EventSelection::everything();
        Ok(match node.kind {
            NodeKind::Events => {
                let event = node.event.clone().map(|event| BTreeSet::from([event]));
                Some(everything.named(event))
            }
            NodeKind::Actions => match self.view.actions.get(&action_id(node)?) {
                None => None,
                Some(action) => Some(everything.and(Some(action.matcher.predicate(self.view)?))),
            },
            NodeKind::Group => {
                check(node)?;
                let mut any = Vec::new();
                for inner in &node.nodes {
                    if let Some(selection) = self.own(inner)? {
                        any.push(selection.as_predicate());
                    }
                }
                if any.is_empty() { None } else { Some(everything.and(Some(Predicate::Any(any)))) }
            }
        })
    }

    /// What the node names, with its own filters.
    fn own(&self, node: &Node) -> Result<Option<EventSelection>> {
        let Some(named) = self.named(node)? else { return Ok(None) };
        let own = self.condition(&node.properties)?;
        Ok(Some(named.and(own).and(self.condition(&node.fixed_properties)?)))
    }

    /// The events a node means in this question; none when its action is gone.
    pub fn selection(&self, node: &Node) -> Result<Option<EventSelection>> {
        Ok(self.own(node)?.map(|own| own.and(self.common.clone())))
    }

    pub fn scan(&self, filter: Filter) -> Scan<'_> {
        Scan {
            view: self.view,
            limits: self.limits,
            filter,
            actors: None,
            breakdown: None,
            keys: Vec::new(),
        }
    }

    /// What a node is called.
    pub fn name(&self, node: &Node) -> String {
        match node.kind {
            NodeKind::Events => node.event.clone().unwrap_or_else(|| "All events".to_owned()),
            NodeKind::Actions => {
                let action = action_id(node).ok().and_then(|id| self.view.actions.get(&id));
                let own = action.map(|action| action.name.clone()).or_else(|| node.name.clone());
                own.unwrap_or_default()
            }
            NodeKind::Group => node.name.clone().unwrap_or_else(|| {
                let names: Vec<String> = node.nodes.iter().map(|node| self.name(node)).collect();
                names.join(", ")
            }),
        }
    }
}

/// Whether a node names what it must.
fn check(node: &Node) -> Result<()> {
    match node.kind {
        NodeKind::Events => Ok(()),
        NodeKind::Actions => action_id(node).map(drop),
        NodeKind::Group if node.nodes.is_empty() || node.nodes.len() > NODES_MAX => {
            Err(Error::Invalid(format!("A group has 1 to {NODES_MAX} nodes.")))
        }
        NodeKind::Group if node.operator.as_deref().is_some_and(|word| word != "OR") => {
            Err(Error::invalid("Nodes can only be combined with OR."))
        }
        NodeKind::Group if node.nodes.iter().any(|inner| inner.kind == NodeKind::Group) => {
            Err(Error::invalid("Groups cannot be inside groups."))
        }
        NodeKind::Group => Ok(()),
    }
}

pub(crate) fn action_id(node: &Node) -> Result<ActionId> {
    let id = match &node.id {
        Some(Json::Number(id)) => id.as_i64(),
        Some(Json::String(id)) => id.parse().ok(),
        _ => None,
    };
    id.map(ActionId).ok_or_else(|| Error::invalid("An ActionsNode needs the id of an action."))
}

/// How results name what a node is about.
pub(crate) fn node_id(node: &Node) -> Json {
    match node.kind {
        NodeKind::Events => node.event.clone().map_or(Json::Null, Json::String),
        NodeKind::Actions => action_id(node).map_or(Json::Null, |id| id.0.into()),
        NodeKind::Group => Json::Null,
    }
}

pub(crate) fn node_type(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Events => "events",
        NodeKind::Actions => "actions",
        NodeKind::Group => "groups",
    }
}

/// Whole numbers without a fraction; what is no number is null.
pub(crate) fn json_number(number: f64) -> Json {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
        Json::from(number as i64)
    } else {
        serde_json::Number::from_f64(number).map_or(Json::Null, Json::Number)
    }
}
