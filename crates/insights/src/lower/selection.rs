//! Which events a series selects, as conditions, and what identifies their actors.

use std::collections::BTreeSet;

use facts::QueryContext;
use hogql::ast::{BinaryOp, Expr, ExprKind};
use hogql::build::{all, any, binary, boolean, call, expr, field, is_null, literal, timestamp};
use hogql::filter::{FilterPrinter, Value};
use hogql::parse_expr;
use model::filter_expr::{FilterExpr, FilteredRows};
use model::{ActionStep, StringMatching, Timestamp};
use serde_json::Value as Json;
use warehouse::ColumnKey;

use crate::lower::unsupported;
use crate::query::spec::{Base, Node, NodeKind};
use crate::scan::context::{QueryScope, action_id, check};
use crate::scan::expression;
use crate::{Error, Result};

/// One query that is lowered.
pub(crate) struct Lowering<'a> {
    pub scope: QueryScope<'a>,
    path_cleaning: Vec<(String, String)>,
    common: Option<Expr>,
}

/// What a query counts as one.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub expr: Expr,
    /// Events may have none, and such events do not count.
    pub is_optional: bool,
}

impl Actor {
    pub fn person() -> Self {
        Self { expr: field(&["person_id"]), is_optional: false }
    }

    pub fn group(index: usize) -> Self {
        Self::optional(column(&ColumnKey::Group(index)))
    }

    pub fn session() -> Self {
        Self::optional(column(&ColumnKey::Property("$session_id".to_owned())))
    }

    fn optional(expr: Expr) -> Self {
        Self { expr, is_optional: true }
    }

    /// Groups of a type if one is given, otherwise persons.
    pub fn of(group: Option<usize>) -> Self {
        group.map_or_else(Self::person, Self::group)
    }

    /// As [`expression::actors`].
    pub fn of_expression(text: &str) -> Result<Self> {
        match text.trim() {
            "person_id" | "person.id" => Ok(Self::person()),
            text => text_of_expression(text).map(Self::optional),
        }
    }

    /// The condition that an event has one.
    pub fn exists(&self) -> Option<Expr> {
        self.is_optional.then(|| is_null(self.expr.clone(), true))
    }
}

/// The string of a column; NULL if it is absent or empty.
pub(crate) fn column(key: &ColumnKey) -> Expr {
    let plain = |name: &str| call("nullIf", vec![field(&[name]), literal("")]);
    match key {
        ColumnKey::Event => plain("event"),
        ColumnKey::DistinctId => plain("distinct_id"),
        ColumnKey::ElementsChain => plain("elements_chain"),
        ColumnKey::Group(index) => plain(&format!("$group_{index}")),
        ColumnKey::Property(name) => Value::property(&["properties"], name).text,
    }
}

/// The string of a HogQL expression; NULL if it is absent or empty.
pub(crate) fn text_of_expression(text: &str) -> Result<Expr> {
    if let Ok(key) = expression::key(text) {
        return Ok(column(&key));
    }
    Ok(call("nullIf", vec![call("toString", vec![parse_expr(text)?]), literal("")]))
}

/// `from` and `to` are inclusive, in microseconds.
pub(crate) fn within(from: Option<i64>, to: i64) -> Expr {
    let at = |micros: i64| timestamp(Timestamp::from_micros(micros));
    let time = || field(&["timestamp"]);
    let from = from.map(|from| binary(BinaryOp::GreaterOrEqual, time(), at(from)));
    let to = binary(BinaryOp::LessOrEqual, time(), at(to));
    all(from.into_iter().chain([to]).collect())
}

fn event_in(events: &BTreeSet<String>) -> Expr {
    let mut list: Vec<Expr> = events.iter().map(|event| literal(event)).collect();
    match list.len() {
        1 => binary(BinaryOp::Equal, field(&["event"]), list.remove(0)),
        _ => {
            let set = Box::new(expr(ExprKind::Tuple(list)));
            expr(ExprKind::In { expr: Box::new(field(&["event"])), set, negated: false })
        }
    }
}

impl<'a> Lowering<'a> {
    pub fn new(context: &'a QueryContext, base: &'a Base) -> Result<Self> {
        let path_cleaning = context.path_cleaning.replacements().collect();
        let scope = QueryScope::new(context, base);
        let mut lowering = Self { scope, path_cleaning, common: None };
        let mut common: Vec<Expr> = lowering.filters(&base.properties)?.into_iter().collect();
        if base.filter_test_accounts {
            common.extend(lowering.filters(&context.test_account_filters)?);
        }
        lowering.common = (!common.is_empty()).then(|| all(common));
        Ok(lowering)
    }

    /// The condition of property filters; none if they keep all events.
    fn filters(&self, filters: &Json) -> Result<Option<Expr>> {
        let QueryContext { now, zone, .. } = self.scope.context;
        self.print(&facts::read_filters(filters, *now, zone)?)
    }

    fn print(&self, filters: &FilterExpr) -> Result<Option<Expr>> {
        if filters.keeps_all() {
            return Ok(None);
        }
        let path_cleaning = &self.path_cleaning;
        let printer = FilterPrinter { rows: FilteredRows::Events, path_cleaning };
        Ok(Some(printer.print(filters)?))
    }

    /// The filters of the query and those that exclude test accounts.
    pub fn common(&self) -> Option<Expr> {
        self.common.clone()
    }

    /// A path with the project's path cleaning rules applied.
    pub fn cleaned_path(&self, path: Expr) -> Expr {
        self.path_cleaning.iter().fold(path, |path, (pattern, replacement)| {
            call("replaceRegexpAll", vec![path, literal(pattern), literal(replacement)])
        })
    }

    /// The events that a node names, without its property filters; none if its action is deleted.
    pub fn named(&self, node: &Node) -> Result<Option<Expr>> {
        Ok(match node.kind {
            NodeKind::Events => Some(match &node.event {
                Some(event) => event_in(&BTreeSet::from([event.clone()])),
                None => boolean(true),
            }),
            NodeKind::Actions => match self.scope.context.actions.get(&action_id(node)?) {
                None => None,
                Some(action) => {
                    let steps = action.events.steps.iter();
                    let steps = steps.map(|(step, filters)| self.step(step, filters));
                    Some(any(steps.collect::<Result<_>>()?))
                }
            },
            NodeKind::Group => {
                check(node)?;
                let mut any_of = Vec::new();
                for inner in &node.nodes {
                    any_of.extend(self.own(inner)?);
                }
                if any_of.is_empty() { None } else { Some(any(any_of)) }
            }
        })
    }

    /// The events that a node names, with its own property filters.
    pub fn own(&self, node: &Node) -> Result<Option<Expr>> {
        let Some(named) = self.named(node)? else { return Ok(None) };
        let filters = [self.filters(&node.properties)?, self.filters(&node.fixed_properties)?];
        let mut parts = if named == boolean(true) { Vec::new() } else { vec![named] };
        parts.extend(filters.into_iter().flatten());
        Ok(Some(all(parts)))
    }

    /// The events that a node selects in this query; none if its action is deleted.
    pub fn selected(&self, node: &Node) -> Result<Option<Expr>> {
        let own = self.own(node)?;
        Ok(own.map(|own| all([Some(own), self.common()].into_iter().flatten().collect())))
    }

    fn step(&self, step: &ActionStep, filters: &FilterExpr) -> Result<Expr> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut parts = Vec::new();
        if let Some(event) = given(&step.event) {
            parts.push(event_in(&BTreeSet::from([event])));
        }
        if let Some(url) = given(&step.url) {
            let matching = step.url_matching.unwrap_or(StringMatching::Contains);
            let text = Value::property(&["properties"], "$current_url").text;
            parts.push(matches(text, &url, matching));
        }
        let elements = [&step.tag_name, &step.text, &step.href, &step.selector];
        if elements.into_iter().any(|text| given(text).is_some()) {
            return Err(unsupported("An action that matches elements"));
        }
        parts.extend(self.print(filters)?);
        Ok(all(parts))
    }
}

fn matches(text: Expr, pattern: &str, matching: StringMatching) -> Expr {
    match matching {
        StringMatching::Exact => binary(BinaryOp::Equal, text, literal(pattern)),
        StringMatching::Regex => binary(BinaryOp::Match, text, literal(pattern)),
        StringMatching::Contains => {
            let position = call("position", vec![text, literal(pattern)]);
            binary(BinaryOp::Greater, position, hogql::build::int(0))
        }
    }
}

/// A conjunction without the parts that are always true.
pub(crate) fn both(parts: impl IntoIterator<Item = Option<Expr>>) -> Expr {
    let always = boolean(true);
    all(parts.into_iter().flatten().filter(|part| *part != always).collect())
}

pub(crate) fn missing_action(node: &Node) -> Error {
    match action_id(node) {
        Ok(id) => Error::Invalid(format!("There is no action {}.", id.0)),
        Err(error) => error,
    }
}
