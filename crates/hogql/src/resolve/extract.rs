//! Extracts aggregates, window functions and `arrayJoin`s from expressions into lists.

use super::call::is_chance;
use super::grouping_sets::GroupingSets;
use super::select::grouping;
use crate::error::{Checked, Fault, Span};
use crate::limits::CALLS_MAX;
use crate::plan::{Aggregate, Expr, ExprKind, Order, Select, Set, Unnest, WindowCall};

pub(super) struct Extract {
    /// None if the select does not aggregate.
    keys: Option<Vec<Expr>>,
    aggregates: Vec<Aggregate>,
    windows: Vec<WindowCall>,
    /// How many unnests precede the grouping.
    early: usize,
    late: Vec<Unnest>,
}

impl Extract {
    pub(super) fn apply(
        plan: &mut Select,
        (mut keys, sets): (Vec<Expr>, &[Vec<usize>]),
        mut having: Option<Expr>,
    ) -> Checked<()> {
        let mut unnests = std::mem::take(&mut plan.unnests);
        let all = plan.filter.iter_mut().chain(&mut keys).chain(&mut having);
        for expr in all {
            replace(expr, |expr| unnest(expr, &mut unnests))?;
        }
        for expr in outputs(plan) {
            replace(expr, |expr| unnest(expr, &mut unnests))?;
        }
        plan.unnests = unnests;
        let sets = (!sets.is_empty()).then(|| GroupingSets::add_to(plan, sets)).transpose()?;

        let is_grouped = sets.is_some()
            || !keys.is_empty()
            || having.as_ref().is_some_and(has_aggregate)
            || outputs(plan).any(|expr| has_aggregate(expr));
        if let (Some(having), false) = (&having, is_grouped) {
            let message = "HAVING needs GROUP BY or an aggregate";
            return Err(Fault::invalid(message, having.span));
        }
        let mut extract = Self {
            keys: is_grouped.then_some(keys),
            aggregates: Vec::new(),
            windows: Vec::new(),
            early: plan.unnests.len(),
            late: Vec::new(),
        };
        if let Some(having) = &mut having {
            replace(having, |expr| extract.expr(expr))?;
            if !extract.windows.is_empty() || !extract.late.is_empty() {
                let message = "Windows and arrayJoin of an aggregate come after HAVING";
                return Err(Fault::invalid(message, having.span));
            }
        }
        for expr in outputs(plan) {
            replace(expr, |expr| extract.expr(expr))?;
        }
        let keys = match (extract.keys, sets) {
            (Some(keys), Some(sets)) => Some(sets.keys(keys)?),
            (keys, _) => keys,
        };
        plan.grouping = keys.map(|keys| {
            let mut grouping = grouping(keys);
            grouping.aggregates = extract.aggregates;
            grouping.having = having;
            grouping
        });
        plan.windows = extract.windows;
        plan.late_unnests = extract.late;
        Ok(())
    }

    fn expr(&mut self, expr: Expr) -> Checked<Expr> {
        if let Some(keys) = &self.keys
            && let Some(key) = keys.iter().position(|key| *key == expr)
        {
            return Ok(Expr { kind: ExprKind::Key(key), ..expr });
        }
        let Expr { kind, mut ty, span } = expr;
        let kind = match kind {
            ExprKind::AggregateCall(call) => {
                // A group is never empty; only an `If` condition or nulls can skip all its rows.
                let has_keys = self.keys.as_ref().is_some_and(|keys| !keys.is_empty());
                let sure = call.filter.is_none() && call.args.iter().all(|arg| !arg.ty.nullable);
                ty.nullable &= !(has_keys && sure);
                ExprKind::Aggregate(intern(&mut self.aggregates, *call, span)?)
            }
            ExprKind::WindowCall(window) => {
                let window = self.window(*window)?;
                ExprKind::Window(intern(&mut self.windows, window, span)?)
            }
            ExprKind::Unnested { array } => {
                let array = self.expr(*array)?;
                let unnest = Unnest { arrays: vec![array], keep_empty: false };
                ExprKind::Element(self.early + intern(&mut self.late, unnest, span)?, 0)
            }
            // Of a group, not of a row.
            ExprKind::Call { function, .. } if is_chance(function.0) && self.keys.is_some() => {
                let keys = self.keys.iter().flatten().enumerate();
                let args = keys.map(|(no, key)| Expr { kind: ExprKind::Key(no), ..key.clone() });
                ExprKind::Call { function, args: args.collect() }
            }
            ExprKind::Column { name, .. } if self.keys.is_some() => {
                return Err(not_grouped(&format!("'{name}'"), span));
            }
            ExprKind::Output { .. } | ExprKind::Element(..) if self.keys.is_some() => {
                return Err(not_grouped("This value", span));
            }
            other => map_children(other, &mut |part| self.expr(part))?,
        };
        Ok(Expr { kind, ty, span })
    }

    fn window(&mut self, window: WindowCall) -> Checked<WindowCall> {
        let WindowCall { mut call, partition, order, frame } = window;
        call.args = each(call.args, &mut |part| self.expr(part))?;
        call.filter = call.filter.map(|filter| self.expr(filter)).transpose()?;
        let partition = each(partition, &mut |part| self.expr(part))?;
        let order = order.into_iter().map(|item| Ok(Order { expr: self.expr(item.expr)?, ..item }));
        Ok(WindowCall { call, partition, order: order.collect::<Checked<_>>()?, frame })
    }
}

fn not_grouped(what: &str, span: Span) -> Fault {
    let message = format!("{what} must be in GROUP BY or inside an aggregate");
    Fault::invalid(message, span)
}

/// The expressions of a select that are evaluated after grouping.
fn outputs(plan: &mut Select) -> impl Iterator<Item = &mut Expr> {
    let by = plan.limit_by.iter_mut().flat_map(|limit_by| &mut limit_by.by);
    let order = plan.order.iter_mut().map(|order| &mut order.expr);
    plan.columns.iter_mut().chain(&mut plan.qualify).chain(order).chain(by)
}

fn replace(expr: &mut Expr, change: impl FnOnce(Expr) -> Checked<Expr>) -> Checked<()> {
    let empty = Expr {
        kind: ExprKind::Value(crate::plan::Value::Null),
        ty: crate::types::Kind::Null.into(),
        span: expr.span,
    };
    *expr = change(std::mem::replace(expr, empty))?;
    Ok(())
}

/// Extracts the `arrayJoin`s that apply before grouping: those whose array has no aggregate.
fn unnest(expr: Expr, unnests: &mut Vec<Unnest>) -> Checked<Expr> {
    let Expr { kind, ty, span } = expr;
    let kind = match map_children(kind, &mut |part| unnest(part, unnests))? {
        ExprKind::Unnested { array } if !has_aggregate(&array) => {
            let unnest = Unnest { arrays: vec![*array], keep_empty: false };
            ExprKind::Element(intern(unnests, unnest, span)?, 0)
        }
        other => other,
    };
    Ok(Expr { kind, ty, span })
}

/// The index of an equal item, or of a new one (common subexpressions are shared).
fn intern<T: PartialEq>(items: &mut Vec<T>, item: T, span: Span) -> Checked<usize> {
    if let Some(index) = items.iter().position(|other| *other == item) {
        return Ok(index);
    }
    if items.len() >= CALLS_MAX {
        return Err(Fault::too_large("aggregates and windows in a select", CALLS_MAX, span));
    }
    items.push(item);
    Ok(items.len() - 1)
}

fn has_aggregate(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::AggregateCall(_) => true,
        ExprKind::Property { of: child, .. }
        | ExprKind::Lambda { body: child, .. }
        | ExprKind::Not(child)
        | ExprKind::IsNull { expr: child, .. }
        | ExprKind::Cast { expr: child, .. }
        | ExprKind::Interval(child, _)
        | ExprKind::Unnested { array: child } => has_aggregate(child),
        ExprKind::Call { args: parts, .. } | ExprKind::And(parts) | ExprKind::Or(parts) => {
            parts.iter().any(has_aggregate)
        }
        ExprKind::Compare(_, sides) => sides.iter().any(has_aggregate),
        ExprKind::In { expr, set, .. } => {
            has_aggregate(expr)
                || match set {
                    Set::List(items) => items.iter().any(has_aggregate),
                    Set::Array(array) => has_aggregate(array),
                    Set::Query(_) | Set::Cohort(_) => false,
                }
        }
        ExprKind::WindowCall(window) => {
            let order = window.order.iter().map(|order| &order.expr);
            let parts = window.call.args.iter().chain(&window.call.filter);
            parts.chain(&window.partition).chain(order).any(has_aggregate)
        }
        ExprKind::Value(_)
        | ExprKind::Column { .. }
        | ExprKind::Output { .. }
        | ExprKind::Element(..)
        | ExprKind::Key(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Param(_)
        | ExprKind::Query(_) => false,
    }
}

type Change<'c> = &'c mut dyn FnMut(Expr) -> Checked<Expr>;

fn each(parts: Vec<Expr>, change: Change<'_>) -> Checked<Vec<Expr>> {
    parts.into_iter().map(change).collect()
}

/// Maps the direct children of an expression. Subqueries are not entered.
fn map_children(kind: ExprKind, change: Change<'_>) -> Checked<ExprKind> {
    let boxed = |part: Box<Expr>, change: Change<'_>| change(*part).map(Box::new);
    Ok(match kind {
        ExprKind::Property { of, path } => ExprKind::Property { of: boxed(of, change)?, path },
        ExprKind::Lambda { params, body } => {
            ExprKind::Lambda { params, body: boxed(body, change)? }
        }
        ExprKind::Call { function, args } => ExprKind::Call { function, args: each(args, change)? },
        ExprKind::Compare(comparison, sides) => {
            let [left, right] = *sides;
            ExprKind::Compare(comparison, Box::new([change(left)?, change(right)?]))
        }
        ExprKind::And(parts) => ExprKind::And(each(parts, change)?),
        ExprKind::Or(parts) => ExprKind::Or(each(parts, change)?),
        ExprKind::Not(part) => ExprKind::Not(boxed(part, change)?),
        ExprKind::IsNull { expr, negated } => {
            ExprKind::IsNull { expr: boxed(expr, change)?, negated }
        }
        ExprKind::In { expr, set, negated } => {
            let expr = boxed(expr, change)?;
            let set = match set {
                Set::List(items) => Set::List(each(items, change)?),
                Set::Array(array) => Set::Array(boxed(array, change)?),
                whole @ (Set::Query(_) | Set::Cohort(_)) => whole,
            };
            ExprKind::In { expr, set, negated }
        }
        ExprKind::Cast { expr, or_null } => ExprKind::Cast { expr: boxed(expr, change)?, or_null },
        ExprKind::Interval(count, unit) => ExprKind::Interval(boxed(count, change)?, unit),
        ExprKind::Unnested { array } => ExprKind::Unnested { array: boxed(array, change)? },
        ExprKind::AggregateCall(mut call) => {
            call.args = each(call.args, change)?;
            call.filter = call.filter.map(change).transpose()?;
            ExprKind::AggregateCall(call)
        }
        ExprKind::WindowCall(mut window) => {
            window.call.args = each(window.call.args, change)?;
            window.call.filter = window.call.filter.map(&mut *change).transpose()?;
            window.partition = each(window.partition, change)?;
            let order = window.order.into_iter();
            let order = order.map(|item| Ok(Order { expr: change(item.expr)?, ..item }));
            window.order = order.collect::<Checked<_>>()?;
            ExprKind::WindowCall(window)
        }
        leaf @ (ExprKind::Value(_)
        | ExprKind::Column { .. }
        | ExprKind::Output { .. }
        | ExprKind::Element(..)
        | ExprKind::Key(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Param(_)
        | ExprKind::Query(_)) => leaf,
    })
}
