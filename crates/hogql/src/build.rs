//! Builds syntax trees in code. Values become literals; they never pass through text.

use model::{CohortId, Timestamp};

use crate::ast::{BinaryOp, Call, Expr, ExprKind, Literal, LogicOp, Name, UnaryOp};
use crate::error::Span;

pub fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

pub fn name(text: &str) -> Name {
    Name::new(text, Span::default())
}

pub fn field(chain: &[&str]) -> Expr {
    expr(ExprKind::Field(chain.iter().map(|part| name(part)).collect()))
}

pub fn null() -> Expr {
    expr(ExprKind::Literal(Literal::Null))
}

/// A string literal.
pub fn literal(text: &str) -> Expr {
    expr(ExprKind::Literal(Literal::String(text.to_owned())))
}

pub fn call(function: &str, args: Vec<Expr>) -> Expr {
    let call = Call { name: name(function), parameters: vec![], distinct: false, args, over: None };
    expr(ExprKind::Call(Box::new(call)))
}

pub fn int(value: u64) -> Expr {
    expr(ExprKind::Literal(Literal::Int(value)))
}

/// Literals are unsigned: a negative number is a negation.
pub fn number(value: f64) -> Expr {
    let literal = expr(ExprKind::Literal(Literal::Float(value.abs())));
    if value.is_sign_negative() {
        return expr(ExprKind::Unary(UnaryOp::Negate, Box::new(literal)));
    }
    literal
}

pub fn boolean(value: bool) -> Expr {
    expr(ExprKind::Literal(Literal::Bool(value)))
}

pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

pub fn not(inner: Expr) -> Expr {
    expr(ExprKind::Unary(UnaryOp::Not, Box::new(inner)))
}

pub fn is_null(inner: Expr, negated: bool) -> Expr {
    expr(ExprKind::IsNull { expr: Box::new(inner), negated })
}

/// AND is true and OR is false without parts.
pub fn logic(op: LogicOp, mut parts: Vec<Expr>) -> Expr {
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

pub fn all(parts: Vec<Expr>) -> Expr {
    logic(LogicOp::And, parts)
}

pub fn any(parts: Vec<Expr>) -> Expr {
    logic(LogicOp::Or, parts)
}

/// A timestamp literal.
pub fn timestamp(at: Timestamp) -> Expr {
    call("toDateTime64", vec![literal(&at.to_string()), int(6), literal("UTC")])
}

/// A cohort's id is positive: literals are unsigned.
pub fn in_cohort(person: Expr, id: CohortId, negated: bool) -> Expr {
    let cohort = Box::new(int(id.0.unsigned_abs()));
    expr(ExprKind::InCohort { expr: Box::new(person), cohort, negated })
}
