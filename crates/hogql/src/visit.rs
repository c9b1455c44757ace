//! Visits the children of a syntax tree, one level at a time.

use crate::ast::{
    Body, Call, Expr, ExprKind, On, Over, Query, Select, Source, SourceKind, Window, WithValue,
};

/// A visit stops at the first error.
type Visit<E> = Result<(), E>;

/// Visits the top-level expressions of a statement, its subqueries and its set operands.
pub(crate) fn exprs_of_query<E>(
    query: &mut Query,
    visit: &mut dyn FnMut(&mut Expr) -> Visit<E>,
) -> Visit<E> {
    for with in &mut query.with {
        match &mut with.value {
            WithValue::Query(query) => exprs_of_query(query, visit)?,
            WithValue::Scalar(expr) => visit(expr)?,
        }
    }
    match &mut query.body {
        Body::Select(select) => exprs_of_select(select, visit),
        Body::Set { first, rest } => {
            exprs_of_query(first, visit)?;
            rest.iter_mut().try_for_each(|(_, query)| exprs_of_query(query, visit))
        }
    }
}

fn exprs_of_select<E>(
    select: &mut Select,
    visit: &mut dyn FnMut(&mut Expr) -> Visit<E>,
) -> Visit<E> {
    select.columns.iter_mut().try_for_each(|column| visit(&mut column.expr))?;
    if let Some(from) = &mut select.from {
        exprs_of_source(&mut from.first, visit)?;
        for join in &mut from.joins {
            exprs_of_source(&mut join.source, visit)?;
            if let Some(On::Condition(condition)) = &mut join.on {
                visit(condition)?;
            }
        }
    }
    if let Some(array_join) = &mut select.array_join {
        array_join.arrays.iter_mut().try_for_each(|array| visit(&mut array.expr))?;
    }
    select.prewhere.iter_mut().chain(&mut select.filter).try_for_each(&mut *visit)?;
    select.group.iter_mut().chain(&mut select.having).try_for_each(&mut *visit)?;
    for (_, window) in &mut select.windows {
        exprs_of_window(window, visit)?;
    }
    select.order.iter_mut().try_for_each(|order| visit(&mut order.expr))?;
    if let Some(limit_by) = &mut select.limit_by {
        visit(&mut limit_by.limit)?;
        limit_by.offset.iter_mut().chain(&mut limit_by.by).try_for_each(&mut *visit)?;
    }
    select.limit.iter_mut().chain(&mut select.offset).try_for_each(visit)
}

fn exprs_of_source<E>(
    source: &mut Source,
    visit: &mut dyn FnMut(&mut Expr) -> Visit<E>,
) -> Visit<E> {
    match &mut source.kind {
        SourceKind::Table(_) => Ok(()),
        SourceKind::Call(_, args) => args.iter_mut().try_for_each(visit),
        SourceKind::Query(query) => exprs_of_query(query, visit),
    }
}

fn exprs_of_window<E>(
    window: &mut Window,
    visit: &mut dyn FnMut(&mut Expr) -> Visit<E>,
) -> Visit<E> {
    window.partition.iter_mut().try_for_each(&mut *visit)?;
    window.order.iter_mut().try_for_each(|order| visit(&mut order.expr))
}

/// Visits the operands of an expression.
pub(crate) fn exprs_of_expr<E>(
    expr: &mut Expr,
    visit: &mut dyn FnMut(&mut Expr) -> Visit<E>,
) -> Visit<E> {
    match &mut expr.kind {
        ExprKind::Literal(_)
        | ExprKind::Star(_)
        | ExprKind::Field(_)
        | ExprKind::Placeholder(_) => Ok(()),
        ExprKind::Member(one, _)
        | ExprKind::Element(one, _)
        | ExprKind::Unary(_, one)
        | ExprKind::IsNull { expr: one, .. }
        | ExprKind::Cast(one, _)
        | ExprKind::Interval(one, _)
        | ExprKind::Lambda(_, one) => visit(one),
        ExprKind::Index(one, two)
        | ExprKind::Binary(_, one, two)
        | ExprKind::In { expr: one, set: two, .. }
        | ExprKind::InCohort { expr: one, cohort: two, .. } => {
            visit(one)?;
            visit(two)
        }
        ExprKind::Between { expr, low, high, .. } => {
            visit(expr)?;
            visit(low)?;
            visit(high)
        }
        ExprKind::Ternary(parts) => parts.iter_mut().try_for_each(visit),
        ExprKind::Case { operand, branches, otherwise } => {
            operand.iter_mut().try_for_each(|operand| visit(operand))?;
            for (when, then) in branches {
                visit(when)?;
                visit(then)?;
            }
            otherwise.iter_mut().try_for_each(|otherwise| visit(otherwise))
        }
        ExprKind::Call(call) => {
            let Call { parameters, args, over, .. } = &mut **call;
            parameters.iter_mut().chain(args).try_for_each(&mut *visit)?;
            match over {
                Some(Over::Window(window)) => exprs_of_window(window, visit),
                Some(Over::Named(_)) | None => Ok(()),
            }
        }
        ExprKind::Logic(_, items) | ExprKind::Array(items) | ExprKind::Tuple(items) => {
            items.iter_mut().try_for_each(visit)
        }
        ExprKind::Query(query) => exprs_of_query(query, visit),
    }
}
