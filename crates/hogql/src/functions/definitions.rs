//! Functions that stand for an expression of other functions ([`Function::bodies`]).

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Function, functions};
use crate::ast::{Expr, ExprKind};
use crate::error::Span;
use crate::parse::parse_expr;
use crate::visit::exprs_of_expr;

/// What a call with this many arguments stands for. Its fields `_1`, `_2` and so on are the arguments.
pub(crate) fn definition(function: &Function, arguments: usize) -> Option<&'static Expr> {
    let body =
        function.bodies.get(arguments.checked_sub(function.args.len() - function.optional)?)?;
    BODIES.get(*body)
}

/// What `arrayReduce('name', array)` stands for: the aggregates that PostHog permits in it.
pub(crate) const REDUCERS: &[(&str, &str)] = &[
    ("sum", "arraySum(_1)"),
    ("min", "arrayMin(_1)"),
    ("max", "arrayMax(_1)"),
    ("avg", "arrayAvg(_1)"),
    ("count", "arrayCount(_item -> isNotNull(_item), _1)"),
    ("uniq", "length(arrayDistinct(_1))"),
    ("uniqExact", "length(arrayDistinct(_1))"),
    ("any", "arrayElement(_1, 1)"),
];

pub(crate) fn reducer(aggregate: &str) -> Option<&'static Expr> {
    let (_, body) = REDUCERS.iter().find(|(name, _)| *name == aggregate)?;
    BODIES.get(*body)
}

/// A constant: parsed once from the table, which `const` code cannot do.
static BODIES: LazyLock<HashMap<&'static str, Expr>> = LazyLock::new(|| {
    let bodies = functions().flat_map(|function| function.bodies);
    let bodies = bodies.chain(REDUCERS.iter().map(|(_, body)| body));
    let parsed = bodies.map(|body| {
        let mut expr = parse_expr(body).expect("a test resolves every definition");
        forget_spans(&mut expr);
        (*body, expr)
    });
    parsed.collect()
});

/// A definition is no part of the statement: errors in it are reported at the call.
fn forget_spans(expr: &mut Expr) {
    expr.span = Span::default();
    match &mut expr.kind {
        ExprKind::Field(chain) => chain.iter_mut().for_each(|name| name.span = Span::default()),
        ExprKind::Call(call) => call.name.span = Span::default(),
        _ => {}
    }
    let visited: Result<(), ()> = exprs_of_expr(expr, &mut |inner| {
        forget_spans(inner);
        Ok(())
    });
    visited.expect("nothing above fails");
}
