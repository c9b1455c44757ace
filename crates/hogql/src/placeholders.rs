//! Fills placeholders with values.
//!
//! A value becomes a literal in the syntax tree. It never passes through text, which rules out SQL
//! injection.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ast::{Expr, ExprKind, Literal, Name, Query, UnaryOp};
use crate::error::{Checked, Fault, Reason, Result, Span};
use crate::limits::{VALUE_BYTES_MAX, VALUE_NESTING_MAX, VALUE_NODES_MAX};
use crate::visit::{exprs_of_expr, exprs_of_query};

/// Values of `{name}` and `{variables.name}`.
#[derive(Clone, Debug, Default)]
pub struct PlaceholderValues {
    pub values: BTreeMap<String, Value>,
    /// Keyed by `code_name`.
    pub variables: BTreeMap<String, Value>,
}

impl PlaceholderValues {
    /// The value of a placeholder; further names are members of objects.
    fn get(&self, chain: &[Name]) -> Option<&Value> {
        let (value, members) = match chain {
            [first, name, members @ ..] if first.text == "variables" => {
                (self.variables.get(&name.text)?, members)
            }
            [name, members @ ..] => (self.values.get(&name.text)?, members),
            [] => return None,
        };
        members.iter().try_fold(value, |value, member| value.get(&member.text))
    }
}

/// Replaces every placeholder except `{filters}` and the bounds of its date range: their meaning
/// depends on the filtered table, and [`crate::resolve()`] expands them. `text` is the source of `query`, for positions in errors.
pub fn fill(mut query: Query, text: &str, values: &PlaceholderValues) -> Result<Query> {
    let mut filler = Filler { values, nodes: 0, bytes: 0 };
    exprs_of_query(&mut query, &mut |expr| filler.expr(expr))
        .map_err(|fault| fault.in_text(text))?;
    Ok(query)
}

/// As [`fill`], for an expression.
pub fn fill_expr(mut expr: Expr, text: &str, values: &PlaceholderValues) -> Result<Expr> {
    let mut filler = Filler { values, nodes: 0, bytes: 0 };
    filler.expr(&mut expr).map_err(|fault| fault.in_text(text))?;
    Ok(expr)
}

pub(crate) fn is_filters(chain: &[Name]) -> bool {
    matches!(chain, [name] if name.text == "filters")
}

/// An end of the date range that `{filters.dateRange.from}` or `{filters.dateRange.to}` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateBound {
    From,
    To,
}

pub(crate) fn date_bound(chain: &[Name]) -> Option<DateBound> {
    let [filters, range, bound] = chain else { return None };
    match (filters.text.as_str(), range.text.as_str(), bound.text.as_str()) {
        ("filters", "dateRange", "from") => Some(DateBound::From),
        ("filters", "dateRange", "to") => Some(DateBound::To),
        _ => None,
    }
}

struct Filler<'a> {
    values: &'a PlaceholderValues,
    /// Inserted so far, counting each use of a value.
    nodes: usize,
    bytes: usize,
}

impl Filler<'_> {
    fn expr(&mut self, expr: &mut Expr) -> Checked<()> {
        let ExprKind::Placeholder(chain) = &expr.kind else {
            return exprs_of_expr(expr, &mut |inner| self.expr(inner));
        };
        if is_filters(chain) || date_bound(chain).is_some() {
            return Ok(());
        }
        let values = self.values;
        let Some(value) = values.get(chain) else {
            let names: Vec<&str> = chain.iter().map(|name| name.text.as_str()).collect();
            return Err(Fault::new(Reason::Placeholder(names.join(".")), expr.span));
        };
        *expr = self.value(value, expr.span, 0)?;
        Ok(())
    }

    fn value(&mut self, value: &Value, span: Span, depth: usize) -> Checked<Expr> {
        self.nodes += 1;
        if self.nodes > VALUE_NODES_MAX {
            return Err(Fault::too_large("elements of values", VALUE_NODES_MAX, span));
        }
        let literal = match value {
            Value::Null => Literal::Null,
            Value::Bool(value) => Literal::Bool(*value),
            Value::String(text) => {
                self.bytes += text.len();
                if self.bytes > VALUE_BYTES_MAX {
                    return Err(Fault::too_large("bytes of values", VALUE_BYTES_MAX, span));
                }
                Literal::String(text.clone())
            }
            Value::Number(number) => return Ok(self.number(number, span)),
            Value::Array(items) => {
                if depth >= VALUE_NESTING_MAX {
                    let what = "levels of lists in a value";
                    return Err(Fault::too_large(what, VALUE_NESTING_MAX, span));
                }
                let items: Checked<Vec<Expr>> =
                    items.iter().map(|item| self.value(item, span, depth + 1)).collect();
                return Ok(Expr { kind: ExprKind::Array(items?), span });
            }
            Value::Object(_) => {
                return Err(Fault::invalid("The value of a placeholder cannot be an object", span));
            }
        };
        Ok(Expr { kind: ExprKind::Literal(literal), span })
    }

    /// Literals are unsigned: a negative number becomes a negation, as the parser would build it.
    fn number(&mut self, number: &serde_json::Number, span: Span) -> Expr {
        let (literal, negative) = match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (_, Some(value), _) => (Literal::Int(value), false),
            (Some(value), ..) => (Literal::Int(value.unsigned_abs()), true),
            (.., Some(value)) => (Literal::Float(value.abs()), value.is_sign_negative()),
            (None, None, None) => (Literal::Null, false),
        };
        let literal = Expr { kind: ExprKind::Literal(literal), span };
        if !negative {
            return literal;
        }
        Expr { kind: ExprKind::Unary(UnaryOp::Negate, Box::new(literal)), span }
    }
}
