//! Resolves names and types: turns a syntax tree into a [`Plan`].

mod access;
mod call;
mod coerce;
mod constants;
mod expr;
mod extract;
mod grouping_sets;
mod scope;
mod select;
mod source;
mod suggest;
mod windows;

use std::collections::{BTreeMap, HashMap};

use model::definition::{PropertyOwner, PropertyType};
use model::{ActionId, CohortId, ProjectId, Timestamp};
use serde_json::Value as Json;

use crate::ast;
use crate::error::{Checked, Fault, Result, Span};
use crate::limits::{PLAN_NESTING_MAX, PLAN_NODES_MAX, ROWS_DEFAULT, ROWS_MAX, WITH_MAX};
use crate::plan::{Body, Expr, Output, Page, Plan, Relation};
use crate::system;
use scope::{Named, Scope};

pub use call::has_aggregate;

/// The project's schema: what the meaning of a statement depends on besides its text.
#[derive(Clone, Debug)]
pub struct Project {
    pub id: ProjectId,
    /// The name of its time zone.
    pub zone: String,
    /// Index of each group type, by name.
    pub groups: BTreeMap<String, u8>,
    /// Types of the properties that are not strings.
    pub properties: HashMap<(PropertyOwner, String), PropertyType>,
    pub cohorts: BTreeMap<CohortId, String>,
    /// The actions that a statement may name in `matchesAction()`.
    pub actions: BTreeMap<ActionId, ActionSchema>,
    /// The rows of the tables of objects that a statement may read, by the table's name.
    pub objects: BTreeMap<&'static str, Vec<Json>>,
}

/// An action: its condition refers to fields of `events`.
#[derive(Clone, Debug)]
pub struct ActionSchema {
    pub name: String,
    pub condition: ast::Expr,
}

/// The value of the `{filters}` placeholder.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// The range is inclusive.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    /// Refers to fields of the filtered table.
    pub condition: Option<ast::Expr>,
}

/// `text` is the source of `query`, for positions in errors; empty if the tree was built in code.
/// Without filters, `{filters}` is true.
pub fn resolve(
    query: &ast::Query,
    text: &str,
    project: &Project,
    filters: Option<&Filters>,
) -> Result<Plan> {
    let query = system::expanded(query, project);
    let mut resolver = Resolver {
        project,
        filters,
        ctes: Vec::new(),
        named: Vec::new(),
        scopes: Vec::new(),
        arguments: Vec::new(),
        nodes: 0,
        depth: 0,
        deepest: 0,
    };
    let resolved = resolver.query(&query);
    let mut root = resolved.map_err(|fault| fault.in_text(text))?;
    let page = take_page(&mut root);
    let zone = project.zone.clone();
    Ok(Plan { project: project.id, zone, ctes: resolver.ctes, root, page })
}

/// Takes the outermost limit as the page of the result, with its default and maximum. A limit at the
/// end of a set operation binds to its last select, as in PostHog's and ClickHouse's grammar, and
/// stays there; the default applies to statements without any limit.
fn take_page(root: &mut Relation) -> Page {
    let has_limit = ends_with_limit(root);
    let (limit, offset) = match &mut root.body {
        // How many rows ties add is only known when it runs.
        Body::Select(select) if select.with_ties => (Some(u64::MAX), 0),
        Body::Select(select) => (select.limit.take(), std::mem::take(&mut select.offset)),
        Body::Set { .. } => (has_limit.then_some(u64::MAX), 0),
    };
    let capped = limit.is_some_and(|limit| limit > ROWS_MAX);
    Page { limit: limit.unwrap_or(ROWS_DEFAULT).min(ROWS_MAX), offset, has_limit, capped }
}

fn ends_with_limit(mut relation: &Relation) -> bool {
    loop {
        relation = match &relation.body {
            Body::Select(select) => return select.limit.is_some(),
            Body::Set { first, rest } => rest.last().map_or(&**first, |(_, last)| last),
        };
    }
}

struct Resolver<'a> {
    project: &'a Project,
    filters: Option<&'a Filters>,
    ctes: Vec<Relation>,
    /// Names of `WITH`, innermost last.
    named: Vec<(&'a str, Named<'a>)>,
    /// Scopes of the enclosing selects; only fields of the last are visible.
    scopes: Vec<Scope<'a>>,
    /// Arguments of the calls whose definitions are being resolved, innermost last.
    arguments: Vec<Vec<Argument>>,
    nodes: usize,
    depth: usize,
    /// The greatest depth since [`Resolver::measured`] began.
    deepest: usize,
}

/// An argument of a defined function: a definition may use it several times.
struct Argument {
    expr: Expr,
    nodes: usize,
    height: usize,
}

impl<'a> Resolver<'a> {
    fn query(&mut self, query: &'a ast::Query) -> Checked<Relation> {
        let outside = self.named.len();
        if let Some(first) = query.with.get(WITH_MAX) {
            return Err(Fault::too_large("names of WITH", WITH_MAX, first.name.span));
        }
        for with in &query.with {
            let name = with.name.text.as_str();
            scope::check_alias(&with.name)?;
            if self.named[outside..].iter().any(|(other, _)| *other == name) {
                let message = format!("'{name}' is named twice by WITH");
                return Err(Fault::invalid(message, with.name.span));
            }
            let named = match &with.value {
                ast::WithValue::Query(query) => {
                    let mut relation =
                        self.deeper(with.name.span, |resolver| resolver.query(query))?;
                    source::rename(&mut relation.columns, &with.columns)?;
                    self.ctes.push(relation);
                    Named::Cte(self.ctes.len() - 1)
                }
                ast::WithValue::Scalar(expr) => Named::Scalar(expr),
            };
            self.named.push((name, named));
        }
        let relation = match &query.body {
            ast::Body::Select(select) => self.select(select)?,
            ast::Body::Set { first, rest } => self.set(first, rest)?,
        };
        self.named.truncate(outside);
        Ok(relation)
    }

    fn set(
        &mut self,
        first: &'a ast::Query,
        rest: &'a [(ast::SetOp, ast::Query)],
    ) -> Checked<Relation> {
        let first = self.deeper(Span::default(), |resolver| resolver.query(first))?;
        let mut columns = first.columns.clone();
        let mut relations = Vec::new();
        for (op, query) in rest {
            let span = span_of(query);
            let relation = self.deeper(span, |resolver| resolver.query(query))?;
            if relation.columns.len() != columns.len() {
                let message = format!(
                    "The parts of a union need equally many columns: {} and {}",
                    columns.len(),
                    relation.columns.len()
                );
                return Err(Fault::invalid(message, span));
            }
            for (column, other) in columns.iter_mut().zip(&relation.columns) {
                let Some(ty) = column.ty.common(&other.ty) else {
                    let (name, a, b) = (&column.name, &column.ty, &other.ty);
                    let message = format!("Column '{name}' cannot be both {a} and {b}");
                    return Err(Fault::invalid(message, span));
                };
                let is_property = column.is_property && other.is_property;
                *column = Output { name: std::mem::take(&mut column.name), ty, is_property };
            }
            relations.push((*op, relation));
        }
        Ok(Relation { columns, body: Body::Set { first: Box::new(first), rest: relations } })
    }

    /// Counts nodes towards [`PLAN_NODES_MAX`].
    fn charge(&mut self, nodes: usize, span: Span) -> Checked<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > PLAN_NODES_MAX {
            let what = "nodes, with aliases in their places";
            return Err(Fault::too_large(what, PLAN_NODES_MAX, span));
        }
        Ok(())
    }

    /// Resolves a child of the node at `span`, one nesting level deeper, within the plan's limits.
    fn deeper<T>(
        &mut self,
        span: Span,
        resolve: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<T> {
        self.charge(1, span)?;
        if self.depth >= PLAN_NESTING_MAX {
            let what = "levels of nesting, with aliases in their places";
            return Err(Fault::too_large(what, PLAN_NESTING_MAX, span));
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let resolved = resolve(self)?;
        self.depth -= 1;
        Ok(resolved)
    }
}

impl Resolver<'_> {
    /// Resolves an argument and measures it.
    fn measured(&mut self, resolve: impl FnOnce(&mut Self) -> Checked<Expr>) -> Checked<Argument> {
        let (nodes, deepest) = (self.nodes, std::mem::replace(&mut self.deepest, self.depth));
        let expr = resolve(self)?;
        let height = self.deepest - self.depth;
        self.deepest = self.deepest.max(deepest);
        Ok(Argument { expr, nodes: self.nodes - nodes, height })
    }

    /// The argument that a definition calls `_1`, `_2` and so on, within the plan's limits.
    fn argument(&mut self, name: &str) -> Checked<Option<Expr>> {
        let Some(arguments) = self.arguments.last() else { return Ok(None) };
        let no = name.strip_prefix('_').and_then(|no| no.parse::<usize>().ok()?.checked_sub(1));
        let Some(argument) = no.and_then(|no| arguments.get(no)) else { return Ok(None) };
        let (expr, nodes, height) = (argument.expr.clone(), argument.nodes, argument.height);
        self.charge(nodes, expr.span)?;
        if self.depth + height > PLAN_NESTING_MAX {
            let what = "levels of nesting, with definitions in their places";
            return Err(Fault::too_large(what, PLAN_NESTING_MAX, expr.span));
        }
        self.deepest = self.deepest.max(self.depth + height);
        Ok(Some(expr))
    }
}

fn span_of(query: &ast::Query) -> Span {
    match &query.body {
        ast::Body::Select(select) => select.span,
        ast::Body::Set { first, .. } => span_of(first),
    }
}
