//! Prints property filters ([`FilterExpr`]) as HogQL, for `{filters}` and for events and actors
//! queries.

mod print;

use facts::{PathCleaning, ReadView};
use hogql::Span;
use hogql::ast::{BinaryOp, Call, Expr, ExprKind, Literal, LogicOp, Name, UnaryOp};
use model::filter_expr::FilterExpr;
pub(crate) use model::filter_expr::FilteredRows as Rows;
use model::{CohortId, Timestamp, Zone};
use serde_json::Value as Json;

use crate::Result;

pub(crate) struct Conditions<'a> {
    rows: Rows,
    now: Timestamp,
    zone: &'a Zone,
    cleaning: &'a PathCleaning,
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

fn name(text: &str) -> Name {
    Name::new(text, Span::default())
}

pub(crate) fn field(chain: &[&str]) -> Expr {
    expr(ExprKind::Field(chain.iter().map(|part| name(part)).collect()))
}

pub(crate) fn literal(text: &str) -> Expr {
    expr(ExprKind::Literal(Literal::String(text.to_owned())))
}

pub(crate) fn call(function: &str, args: Vec<Expr>) -> Expr {
    let call = Call { name: name(function), parameters: vec![], distinct: false, args, over: None };
    expr(ExprKind::Call(Box::new(call)))
}

fn number(value: f64) -> Expr {
    let literal = expr(ExprKind::Literal(Literal::Float(value.abs())));
    if value.is_sign_negative() {
        return expr(ExprKind::Unary(UnaryOp::Negate, Box::new(literal)));
    }
    literal
}

pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

fn not(inner: Expr) -> Expr {
    expr(ExprKind::Unary(UnaryOp::Not, Box::new(inner)))
}

fn is_null(inner: Expr, negated: bool) -> Expr {
    expr(ExprKind::IsNull { expr: Box::new(inner), negated })
}

fn boolean(value: bool) -> Expr {
    expr(ExprKind::Literal(Literal::Bool(value)))
}

pub(crate) fn logic(op: LogicOp, mut parts: Vec<Expr>) -> Expr {
    match parts.len() {
        0 => boolean(op == LogicOp::And),
        1 => parts.remove(0),
        _ => {
            // The parser flattens nested AND and OR; so does this.
            let flat = parts.into_iter().flat_map(|part| match part.kind {
                ExprKind::Logic(inner_op, inner) if inner_op == op => inner,
                _ => vec![part],
            });
            expr(ExprKind::Logic(op, flat.collect()))
        }
    }
}

pub(crate) fn all(parts: Vec<Expr>) -> Expr {
    logic(LogicOp::And, parts)
}

/// A timestamp literal.
pub(crate) fn timestamp(at: Timestamp) -> Expr {
    let digits = expr(ExprKind::Literal(Literal::Int(6)));
    call("toDateTime64", vec![literal(&at.to_string()), digits, literal("UTC")])
}

impl<'a> Conditions<'a> {
    pub fn new(view: &'a ReadView, rows: Rows) -> Self {
        Self { rows, now: view.now, zone: &view.zone, cleaning: &view.path_cleaning }
    }
}

/// Whether filters can be printed; neither the time nor the zone matters for that.
pub(crate) fn check(filters: &Json, rows: Rows) -> Result<()> {
    let (now, zone) = (Timestamp::from_micros(0), &Zone::named("UTC"));
    Conditions { rows, now, zone, cleaning: &PathCleaning::default() }.read(filters).map(drop)
}

impl Conditions<'_> {
    /// The condition of filters; none if they keep all rows.
    pub fn read(&self, filters: &Json) -> Result<Option<Expr>> {
        let filters = FilterExpr::parse(filters, self.rows, self.now, self.zone)
            .map_err(facts::Error::from)?;
        if filters.keeps_all() { Ok(None) } else { self.print(&filters).map(Some) }
    }
}

pub(crate) fn in_cohort(person: Expr, id: CohortId, negated: bool) -> Expr {
    let cohort = Box::new(expr(ExprKind::Literal(Literal::Int(id.0.unsigned_abs()))));
    expr(ExprKind::InCohort { expr: Box::new(person), cohort, negated })
}

#[cfg(test)]
mod tests;
