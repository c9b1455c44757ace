//! Implicit casts.
//!
//! A string literal is cast to the type it is compared with. A property has the type of its
//! definition, which may be missing: it is cast to the expected type as well, and is null where that
//! fails. Nothing else is cast implicitly.

use super::Resolver;
use super::expr::cast;
use crate::error::{Checked, Fault, Span};
use crate::functions::Arg;
use crate::plan::{Expr, ExprKind, Value};
use crate::types::{Kind, Type};

impl Resolver<'_> {
    /// Casts both sides of a comparison to comparable types.
    pub(super) fn align(&mut self, left: Expr, right: Expr, span: Span) -> Checked<[Expr; 2]> {
        if left.ty.common(&right.ty).is_some() {
            return Ok([left, right]);
        }
        if let Some(kind) = implicit_kind(&left, &right) {
            return Ok([left, cast_implicitly(right, kind)]);
        }
        if let Some(kind) = implicit_kind(&right, &left) {
            return Ok([cast_implicitly(left, kind), right]);
        }
        Err(Fault::invalid(format!("{} cannot be compared with {}", left.ty, right.ty), span))
    }

    /// Casts an element of an `IN` list to the type of `left`, which stays as it is.
    pub(super) fn align_item(&mut self, left: &Expr, item: Expr) -> Checked<Expr> {
        if left.ty.common(&item.ty).is_some() {
            return Ok(item);
        }
        if let Some(kind) = implicit_kind(left, &item) {
            return Ok(cast_implicitly(item, kind));
        }
        let literal = matches!(item.kind, ExprKind::Value(_));
        if left.ty.kind.is_string() && literal {
            return Ok(cast(item, Kind::String.into(), false));
        }
        Err(Fault::invalid(format!("{} cannot be in a list of {}", left.ty, item.ty), item.span))
    }

    /// Casts an argument to what its function requires.
    pub(super) fn coerce(&mut self, expr: Expr, wanted: Arg) -> Checked<Expr> {
        let kind = &expr.ty.kind;
        let fits = match wanted {
            Arg::Any => true,
            Arg::String => kind.is_string(),
            Arg::Int | Arg::Condition => kind.is_integer(),
            Arg::Number => kind.is_number(),
            Arg::Time => kind.is_time(),
            Arg::Interval => matches!(kind, Kind::Interval(_)),
            Arg::Array => matches!(kind, Kind::Array(_)),
            Arg::Map => matches!(kind, Kind::Map(_)),
            Arg::Tuple => matches!(kind, Kind::Tuple(_)),
            Arg::Key => kind.is_string() || kind.is_integer(),
            Arg::Unit | Arg::ConstString => matches!(expr.kind, ExprKind::Value(Value::String(_))),
            Arg::Zone => match &expr.kind {
                ExprKind::Value(Value::String(zone)) if model::is_time_zone(zone) => true,
                ExprKind::Value(Value::String(zone)) => {
                    return Err(Fault::invalid(format!("Unknown time zone '{zone}'"), expr.span));
                }
                _ => false,
            },
            Arg::ConstInt => {
                matches!(expr.kind, ExprKind::Value(Value::UInt(_) | Value::Int(_)))
            }
        };
        let may_be_null = !matches!(
            wanted,
            Arg::Array
                | Arg::Map
                | Arg::Tuple
                | Arg::Unit
                | Arg::ConstString
                | Arg::Zone
                | Arg::ConstInt
        );
        if fits || (*kind == Kind::Null && may_be_null) {
            return Ok(expr);
        }
        let property = matches!(expr.kind, ExprKind::Property { .. });
        let literal = matches!(expr.kind, ExprKind::Value(Value::String(_)));
        let reread_as = match wanted {
            Arg::String if property => Some(Kind::String),
            Arg::Int if property => Some(Kind::Int(64)),
            Arg::Number if property => Some(Kind::Float),
            Arg::Condition if property => Some(Kind::Bool),
            Arg::Time if (property || literal) && kind.is_string() => Some(Kind::TIMESTAMP),
            _ => None,
        };
        match reread_as {
            Some(kind) => Ok(cast(expr, kind.into(), property)),
            None => {
                let message = format!("Expected {}, found {}", expected_name(wanted), expr.ty);
                Err(Fault::invalid(message, expr.span))
            }
        }
    }
}

fn expected_name(wanted: Arg) -> &'static str {
    match wanted {
        Arg::Any => "a value",
        Arg::String => "a text",
        Arg::Int => "a whole number",
        Arg::Number => "a number",
        Arg::Condition => "a condition",
        Arg::Time => "a date or a date-time",
        Arg::Interval => "an interval",
        Arg::Array => "an array",
        Arg::Map => "a map",
        Arg::Tuple => "a tuple",
        Arg::Unit => "a unit of time",
        Arg::Zone => "the name of a time zone",
        Arg::ConstString => "a text written in the query",
        Arg::ConstInt => "a whole number written in the query",
        Arg::Key => "a name or a number",
    }
}

/// The kind to which `other` must be cast to be compared with `one`, if possible.
fn implicit_kind(one: &Expr, other: &Expr) -> Option<Kind> {
    let literal = matches!(other.kind, ExprKind::Value(Value::String(_)));
    let property = matches!(other.kind, ExprKind::Property { .. });
    let one_is_property = matches!(one.kind, ExprKind::Property { .. });
    match &one.ty.kind {
        kind if kind.is_time() && other.ty.kind.is_string() && (literal || property) => {
            Some(Kind::TIMESTAMP)
        }
        Kind::Uuid if other.ty.kind.is_string() => Some(Kind::Uuid),
        // A boolean property without a definition holds the string `true`.
        kind if kind.is_string() && one_is_property && other.ty.kind == Kind::Bool => {
            Some(Kind::String)
        }
        Kind::Bool if one_is_property && literal => Some(Kind::Bool),
        Kind::Bool => None,
        kind if kind.is_number() && property && other.ty.kind.is_string() => Some(Kind::Float),
        kind if kind.is_number() && one_is_property && literal => Some(Kind::Float),
        _ => None,
    }
}

/// Casts implicitly. A string literal that is not a time is an error; a property becomes null.
fn cast_implicitly(expr: Expr, kind: Kind) -> Expr {
    let is_literal = matches!(expr.kind, ExprKind::Value(_));
    let or_null = !(is_literal && (kind.is_time() || kind == Kind::String));
    cast(expr, Type::from(kind), or_null)
}
