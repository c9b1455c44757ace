//! Visits the children of a syntax tree, one level at a time.

use std::collections::BTreeSet;
use std::convert::Infallible;

use crate::ast::{
    Body, Call, Expr, ExprKind, On, Over, Query, Select, Source, SourceKind, Window, WithValue,
};

/// A visit stops at the first error.
type Visit<E> = Result<(), E>;

/// Names of the tables that a statement reads, without those of its `WITH`.
pub fn table_names(query: &Query) -> BTreeSet<String> {
    let (mut tables, mut ctes) = (BTreeSet::new(), BTreeSet::new());
    collect_tables(&mut query.clone(), &mut tables, &mut ctes);
    tables.retain(|name| !ctes.contains(name));
    tables
}

/// Visits every subquery once: those of `FROM` and `WITH` here, and those in expressions through
/// [`exprs_of_query`], which itself looks into `FROM` and `WITH`.
fn collect_tables(query: &mut Query, tables: &mut BTreeSet<String>, ctes: &mut BTreeSet<String>) {
    collect_sources(query, tables, ctes);
    let Ok(()) = exprs_of_query(query, &mut |expr| collect_in_expr(expr, tables, ctes));
}

fn collect_in_expr(
    expr: &mut Expr,
    tables: &mut BTreeSet<String>,
    ctes: &mut BTreeSet<String>,
) -> Visit<Infallible> {
    if let ExprKind::Query(query) = &mut expr.kind {
        collect_tables(query, tables, ctes);
        return Ok(());
    }
    exprs_of_expr(expr, &mut |inner| collect_in_expr(inner, tables, ctes))
}

fn collect_sources(query: &Query, tables: &mut BTreeSet<String>, ctes: &mut BTreeSet<String>) {
    for with in &query.with {
        ctes.insert(with.name.text.clone());
        if let WithValue::Query(query) = &with.value {
            collect_sources(query, tables, ctes);
        }
    }
    match &query.body {
        Body::Select(select) => {
            let sources = select.from.iter().flat_map(|from| {
                std::iter::once(&from.first).chain(from.joins.iter().map(|join| &join.source))
            });
            for source in sources {
                match &source.kind {
                    SourceKind::Table(name) => drop(tables.insert(name.text.clone())),
                    SourceKind::Call(..) => {}
                    SourceKind::Query(query) => collect_sources(query, tables, ctes),
                }
            }
        }
        Body::Set { first, rest } => {
            collect_sources(first, tables, ctes);
            rest.iter().for_each(|(_, query)| collect_sources(query, tables, ctes));
        }
    }
}

/// Visits the sources of a statement and of its subqueries in `FROM` and `WITH`.
pub(crate) fn sources_of_query(query: &mut Query, visit: &mut dyn FnMut(&mut Source)) {
    for with in &mut query.with {
        if let WithValue::Query(query) = &mut with.value {
            sources_of_query(query, visit);
        }
    }
    match &mut query.body {
        Body::Select(select) => {
            let sources = select.from.iter_mut().flat_map(|from| {
                let joined = from.joins.iter_mut().map(|join| &mut join.source);
                std::iter::once(&mut from.first).chain(joined)
            });
            for source in sources {
                if let SourceKind::Query(query) = &mut source.kind {
                    sources_of_query(query, visit);
                }
                visit(source);
            }
        }
        Body::Set { first, rest } => {
            sources_of_query(first, visit);
            rest.iter_mut().for_each(|(_, query)| sources_of_query(query, visit));
        }
    }
}

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
    select.qualify.iter_mut().try_for_each(&mut *visit)?;
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
        | ExprKind::TryCast(one, _)
        | ExprKind::Alias(one, _)
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
        ExprKind::Columns(set) => set.replace.iter_mut().try_for_each(|(expr, _)| visit(expr)),
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

/// The operands of an expression, without those of its subqueries.
pub(crate) fn operands(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Literal(_)
        | ExprKind::Star(_)
        | ExprKind::Field(_)
        | ExprKind::Placeholder(_)
        | ExprKind::Query(_) => Vec::new(),
        ExprKind::Member(one, _)
        | ExprKind::Element(one, _)
        | ExprKind::Unary(_, one)
        | ExprKind::IsNull { expr: one, .. }
        | ExprKind::Cast(one, _)
        | ExprKind::TryCast(one, _)
        | ExprKind::Alias(one, _)
        | ExprKind::Interval(one, _)
        | ExprKind::Lambda(_, one) => vec![one],
        ExprKind::Index(one, two)
        | ExprKind::Binary(_, one, two)
        | ExprKind::In { expr: one, set: two, .. }
        | ExprKind::InCohort { expr: one, cohort: two, .. } => vec![one, two],
        ExprKind::Between { expr, low, high, .. } => vec![expr, low, high],
        ExprKind::Columns(set) => set.replace.iter().map(|(expr, _)| expr).collect(),
        ExprKind::Ternary(parts) => parts.iter().collect(),
        ExprKind::Case { operand, branches, otherwise } => {
            let branches = branches.iter().flat_map(|(when, then)| [when, then]);
            operand.as_deref().into_iter().chain(branches).chain(otherwise.as_deref()).collect()
        }
        ExprKind::Call(call) => {
            let Call { parameters, args, over, .. } = &**call;
            let mut all: Vec<&Expr> = parameters.iter().chain(args).collect();
            if let Some(Over::Window(window)) = over {
                all.extend(&window.partition);
                all.extend(window.order.iter().map(|order| &order.expr));
            }
            all
        }
        ExprKind::Logic(_, items) | ExprKind::Array(items) | ExprKind::Tuple(items) => {
            items.iter().collect()
        }
    }
}
