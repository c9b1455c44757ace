//! HogQL expressions over events, compiled to predicates, per-event values and aggregates.

pub(crate) mod aggregate_expr;
mod inputs;

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef};
use eval::{Context, Program};
use facts::{ConditionCompiler, ReadView};
use hogql::ast;
use hogql::plan::{Body, Expr, Select};
use hogql::{Project, Reason, Span};
use warehouse::{Batch, ColumnKey, Predicate, Projection, RowPredicate};

use crate::columns::EventColumns;
use crate::{Error, Result};
use inputs::Inputs;

/// Compiles HogQL expressions against a project's schema. As [`ReadView::expressions`] it also
/// compiles filters of type `hogql`.
#[derive(Debug)]
pub struct HogqlCompiler {
    project: Project,
    cancellation: eval::Cancellation,
}

/// A compiled expression that gives one value per event.
#[derive(Debug)]
pub(crate) struct Scalar {
    program: Program,
    inputs: Inputs,
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

fn unsupported(what: &str) -> Error {
    Error::Invalid(format!("{what} cannot be used in this expression."))
}

fn context(view: &ReadView, cancellation: &eval::Cancellation) -> Arc<Context> {
    let of_query = &view.context;
    Arc::new(Context {
        zone: of_query.zone.time_zone().clone(),
        now: of_query.now.as_micros(),
        week_starts_monday: of_query.week_starts_monday,
        cancellation: cancellation.clone(),
    })
}

/// Maps an error of compiling or running an expression.
fn eval_error(error: eval::Error) -> Error {
    match error {
        eval::Error::Cancelled => Error::Timeout,
        eval::Error::MemoryLimit => Error::MemoryLimit,
        other => invalid(other),
    }
}

/// `SELECT expr FROM events`.
fn select_of(expr: ast::Expr) -> ast::Query {
    let span = Span::default();
    let kind = ast::SourceKind::Table(ast::Name::new("events", span));
    let first = ast::Source { kind, alias: None, columns: Vec::new(), span };
    let select = ast::Select {
        columns: vec![ast::Column { expr, alias: None }],
        from: Some(ast::From { first, joins: Vec::new() }),
        ..ast::Select::default()
    };
    ast::Query { with: Vec::new(), body: ast::Body::Select(Box::new(select)) }
}

/// `toString(expr)`.
fn as_text(expr: ast::Expr) -> ast::Expr {
    let span = expr.span;
    let name = ast::Name::new("toString", span);
    let args = vec![expr];
    let call = ast::Call { name, parameters: Vec::new(), distinct: false, args, over: None };
    ast::Expr { kind: ast::ExprKind::Call(Box::new(call)), span }
}

impl HogqlCompiler {
    pub fn new(project: Project) -> Self {
        Self { project, cancellation: eval::Cancellation::default() }
    }

    /// Running expressions observes the query's cancellation and charges its memory.
    #[must_use]
    pub fn with_cancellation(self, cancellation: eval::Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// What names are resolved against.
    pub fn project(&self) -> &Project {
        &self.project
    }

    fn select(&self, text: &str, wrap: fn(ast::Expr) -> ast::Expr) -> Result<Select> {
        let expr = hogql::parse_expr(text).map_err(invalid)?;
        let query = select_of(wrap(expr));
        let plan = hogql::resolve(&query, text, &self.project, None);
        let plan = plan.map_err(|error| match error.reason {
            Reason::Unknown { .. } => Error::Missing(error.to_string()),
            _ => invalid(error),
        })?;
        let Body::Select(select) = plan.root.body else { return Err(unsupported("A query")) };
        if !select.unnests.is_empty() || !select.late_unnests.is_empty() {
            return Err(unsupported("arrayJoin"));
        }
        if !select.windows.is_empty() {
            return Err(unsupported("A window"));
        }
        Ok(*select)
    }

    fn scalar(
        &self,
        view: &ReadView,
        text: &str,
        wrap: fn(ast::Expr) -> ast::Expr,
    ) -> Result<Scalar> {
        let select = self.select(text, wrap)?;
        match select.columns.as_slice() {
            [column] if select.grouping.is_none() => {
                Scalar::new(column, view, &context(view, &self.cancellation))
            }
            _ => Err(unsupported("An aggregate")),
        }
    }

    /// Compiles a boolean expression.
    pub(crate) fn predicate(&self, view: &ReadView, text: &str) -> Result<Predicate> {
        let scalar = self.scalar(view, text, |expr| expr)?;
        let columns = Projection { keys: scalar.keys().to_vec(), ..Projection::default() };
        Ok(Predicate::Rows(Arc::new(Condition { scalar, columns })))
    }

    /// Compiles an expression whose values are converted to strings.
    pub(crate) fn texts(&self, view: &ReadView, text: &str) -> Result<Scalar> {
        self.scalar(view, text, as_text)
    }
}

impl Scalar {
    fn new(expr: &Expr, view: &ReadView, context: &Arc<Context>) -> Result<Self> {
        let mut inputs = Inputs::default();
        let program = Program::compile(expr, context, &mut |leaf| inputs.find(leaf, view));
        let program = program.map_err(|error| match inputs.unknown() {
            Some(name) => unsupported(name),
            None => eval_error(error),
        })?;
        Ok(Self { program, inputs })
    }

    pub fn keys(&self) -> &[ColumnKey] {
        self.inputs.keys()
    }

    fn run(&self, events: EventColumns<'_>) -> Result<ArrayRef> {
        let inputs = self.inputs.arrays(events)?;
        self.program.run(&inputs, events.times.len()).map_err(eval_error)
    }

    /// Calls `each` with the string of each row; none for null and the empty string.
    pub fn each_text(
        &self,
        events: EventColumns<'_>,
        mut each: impl FnMut(Option<&str>),
    ) -> Result<()> {
        let array = self.run(events)?;
        let text = |array: &dyn Array, at: usize| -> Option<String> {
            let texts = array.as_string_opt::<i32>()?;
            (!texts.is_null(at)).then(|| texts.value(at).to_owned())
        };
        if let Some(coded) = array.as_any_dictionary_opt() {
            let keys = coded.normalized_keys();
            for (row, key) in keys.iter().enumerate() {
                let value = if array.is_null(row) { None } else { text(coded.values(), *key) };
                each(value.as_deref().filter(|text| !text.is_empty()));
            }
            return Ok(());
        }
        let Some(texts) = array.as_string_opt::<i32>() else {
            return Err(unsupported("This type"));
        };
        for row in 0..texts.len() {
            let value = (!texts.is_null(row)).then(|| texts.value(row));
            each(value.filter(|text| !text.is_empty()));
        }
        Ok(())
    }
}

/// A filter of type `hogql`.
#[derive(Debug)]
struct Condition {
    scalar: Scalar,
    columns: Projection,
}

impl RowPredicate for Condition {
    fn columns(&self) -> &Projection {
        &self.columns
    }

    fn evaluate(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String> {
        let Batch { timestamps, distinct_nos, columns, .. } = batch;
        let events = EventColumns { times: timestamps, distinct_nos, columns };
        let inputs = self.scalar.inputs.arrays(events).map_err(|error| error.to_string())?;
        let kept = self.scalar.program.filter(&inputs, batch.rows);
        let kept = kept.map_err(|error| error.to_string())?;
        Ok((0..batch.rows).map(|row| kept.value(row)).collect())
    }
}

impl ConditionCompiler for HogqlCompiler {
    fn condition(&self, view: &ReadView, text: &str) -> facts::Result<Predicate> {
        self.predicate(view, text).map_err(|error| facts::Error::Invalid(error.to_string()))
    }
}
