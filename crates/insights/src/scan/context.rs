//! Query context shared by all kinds: which events a series node selects, under the query's common
//! filters and dates.

use std::collections::BTreeSet;

use facts::{Filters, QueryContext, ReadView};
use model::{ActionId, Timestamp};
use serde_json::Value as Json;
use warehouse::{ColumnKey, Filter, Predicate, Value};

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::date_range::DateResolver;
use crate::query::spec::{Base, Node, NodeKind};
use crate::scan::Scan;
use crate::{Error, Result};

/// Nodes of one group node.
const NODES_MAX: usize = 100;

/// One query apart from the data: its names and its dates.
pub(crate) struct QueryScope<'a> {
    pub context: &'a QueryContext,
    pub dates: DateResolver,
    pub base: &'a Base,
}

/// One query on one read view.
pub(crate) struct ScanContext<'a> {
    pub scope: QueryScope<'a>,
    pub view: &'a ReadView,
    pub limits: &'a QueryLimits,
    /// None if the caller compiles no HogQL.
    pub hogql: Option<&'a HogqlCompiler>,
    /// The query's property filters and the test account filters.
    common_filter: Option<Predicate>,
}

/// Events selected by name and by predicate.
#[derive(Clone, Debug)]
pub(crate) struct EventSelection {
    /// None for all names.
    events: Option<BTreeSet<String>>,
    predicate: Option<Predicate>,
}

/// Conjunction of the predicates that are given.
fn all(parts: impl IntoIterator<Item = Option<Predicate>>) -> Option<Predicate> {
    let mut parts: Vec<Predicate> = parts.into_iter().flatten().collect();
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Predicate::All(parts)),
    }
}

impl EventSelection {
    pub fn all() -> Self {
        Self { events: None, predicate: None }
    }

    pub fn and(mut self, predicate: Option<Predicate>) -> Self {
        self.predicate = all([self.predicate, predicate]);
        self
    }

    pub fn with_names(mut self, events: Option<BTreeSet<String>>) -> Self {
        self.events = events;
        self
    }

    /// None for all names.
    pub fn names(&self) -> Option<&BTreeSet<String>> {
        self.events.as_ref()
    }

    /// Names and predicate as one predicate.
    pub fn as_predicate(&self) -> Predicate {
        let named = self.events.clone().map(|events| {
            Predicate::test(ColumnKey::Event, move |value| match value {
                Some(Value::Text(event)) => events.contains(event),
                _ => false,
            })
        });
        let parts = [named, self.predicate.clone()];
        Predicate::All(parts.into_iter().flatten().collect())
    }

    /// `from` and `to` are inclusive, in microseconds.
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

impl<'a> ScanContext<'a> {
    pub fn new(
        view: &'a ReadView,
        limits: &'a QueryLimits,
        base: &'a Base,
        hogql: Option<&'a HogqlCompiler>,
    ) -> Result<Self> {
        let scope = QueryScope::new(&view.context, base);
        let mut context = Self { scope, view, limits, hogql, common_filter: None };
        let test_accounts = match base.filter_test_accounts {
            true => context.condition(&view.context.test_account_filters)?,
            false => None,
        };
        context.common_filter = all([context.condition(&base.properties)?, test_accounts]);
        Ok(context)
    }

    pub fn condition(&self, filters: &Json) -> Result<Option<Predicate>> {
        let filters = Filters::read(filters, self.scope.context.now, &self.scope.context.zone)?;
        Ok(filters.predicate(self.view)?)
    }

    /// All events that pass the common filters.
    pub fn all_events(&self) -> EventSelection {
        EventSelection::all().and(self.common_filter.clone())
    }

    /// The events that a node names, without its property filters; none if its action is deleted.
    pub fn unfiltered_selection(&self, node: &Node) -> Result<Option<EventSelection>> {
        let all = EventSelection::all();
        Ok(match node.kind {
            NodeKind::Events => {
                let event = node.event.clone().map(|event| BTreeSet::from([event]));
                Some(all.with_names(event))
            }
            NodeKind::Actions => match self.view.actions.get(&action_id(node)?) {
                None => None,
                Some(action) => Some(all.and(Some(action.predicate(self.view)?))),
            },
            NodeKind::Group => {
                check(node)?;
                let mut any = Vec::new();
                for inner in &node.nodes {
                    if let Some(selection) = self.node_selection(inner)? {
                        any.push(selection.as_predicate());
                    }
                }
                if any.is_empty() { None } else { Some(all.and(Some(Predicate::Any(any)))) }
            }
        })
    }

    /// The events that a node names, with its own property filters.
    fn node_selection(&self, node: &Node) -> Result<Option<EventSelection>> {
        let Some(named) = self.unfiltered_selection(node)? else { return Ok(None) };
        let properties = self.condition(&node.properties)?;
        Ok(Some(named.and(properties).and(self.condition(&node.fixed_properties)?)))
    }

    /// The events that a node selects in this query; none if its action is deleted.
    pub fn selection(&self, node: &Node) -> Result<Option<EventSelection>> {
        Ok(self.node_selection(node)?.map(|selection| selection.and(self.common_filter.clone())))
    }

    pub fn scan(&self, filter: Filter) -> Scan<'_> {
        Scan {
            view: self.view,
            limits: self.limits,
            filter,
            actors: None,
            breakdown: None,
            keys: Vec::new(),
            uuids: false,
        }
    }
}

impl<'a> QueryScope<'a> {
    pub fn new(context: &'a QueryContext, base: &'a Base) -> Self {
        Self { context, dates: DateResolver::new(context), base }
    }

    /// The display name of a node.
    pub fn name(&self, node: &Node) -> String {
        match node.kind {
            NodeKind::Events => node.event.clone().unwrap_or_else(|| "All events".to_owned()),
            NodeKind::Actions => {
                let action = action_id(node).ok().and_then(|id| self.context.actions.get(&id));
                let name = action.map(|action| action.name.clone()).or_else(|| node.name.clone());
                name.unwrap_or_default()
            }
            NodeKind::Group => node.name.clone().unwrap_or_else(|| {
                let names: Vec<String> = node.nodes.iter().map(|node| self.name(node)).collect();
                names.join(", ")
            }),
        }
    }
}

/// Validates the shape of a node.
pub(crate) fn check(node: &Node) -> Result<()> {
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

/// The `id` of a node in results.
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

/// Integers without a fraction; NaN and infinities as null.
pub(crate) fn json_number(number: f64) -> Json {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
        Json::from(number as i64)
    } else {
        serde_json::Number::from_f64(number).map_or(Json::Null, Json::Number)
    }
}
