//! Statements with parts that are built in code: `{name}` in the text stands for an expression.
//!
//! The text is the author's own and fixed; whatever comes from outside is inserted into the tree.

use std::convert::Infallible;

use crate::ast::{Expr, ExprKind, Query};
use crate::error::Result;
use crate::visit::{exprs_of_expr, exprs_of_query};
use crate::{parse, parse_expr};

/// Names and the expressions that replace them.
pub type Parts<'a> = [(&'a str, Expr)];

/// Parses a statement and replaces its placeholders. One without a part stays as it is.
pub fn statement(text: &str, parts: &Parts<'_>) -> Result<Query> {
    let mut query = parse(text)?;
    let Ok(()) = exprs_of_query(&mut query, &mut |expr| replace(expr, parts));
    Ok(query)
}

/// As [`statement`], for an expression.
pub fn expression(text: &str, parts: &Parts<'_>) -> Result<Expr> {
    let mut expr = parse_expr(text)?;
    let Ok(()) = replace(&mut expr, parts);
    Ok(expr)
}

fn replace(expr: &mut Expr, parts: &Parts<'_>) -> std::result::Result<(), Infallible> {
    if let ExprKind::Placeholder(chain) = &expr.kind {
        let named = |(name, _): &&(&str, Expr)| matches!(&chain[..], [only] if only.text == *name);
        if let Some((_, part)) = parts.iter().find(named) {
            *expr = part.clone();
        }
        return Ok(());
    }
    exprs_of_expr(expr, &mut |inner| replace(inner, parts))
}
