//! Predicate pushdown: the part of a query's conditions that lets the warehouse skip rows.

use std::collections::BTreeSet;

use datafusion_common::ScalarValue;
use hogql::plan::{Comparison, Expr, ExprKind, Set};
use hogql::types::{Kind, Type};
use model::Timestamp;
use warehouse::Filter;

use crate::lower::Lowering;

impl Lowering {
    /// A filter for the conditions that it can express, and the other conditions.
    pub(super) fn pushdown_filter<'a>(&self, conditions: &[&'a Expr]) -> (Filter, Vec<&'a Expr>) {
        let (mut filter, mut rest) = (Filter::default(), Vec::new());
        for condition in conditions {
            let pushed = match &condition.kind {
                ExprKind::Compare(comparison, sides) => {
                    let (left, right) = (&sides[0], &sides[1]);
                    self.push_comparison(*comparison, left, right, &mut filter)
                        || self.push_comparison(flipped(*comparison), right, left, &mut filter)
                }
                ExprKind::In { expr, set: Set::List(items), negated }
                    if is_column(expr, "event") =>
                {
                    let names = items.iter().map(|item| self.constant_string(item));
                    let names = names.collect::<Option<BTreeSet<String>>>();
                    let push = |names| match negated {
                        true => filter.excluded_events.extend(names),
                        false => intersect_events(&mut filter, names),
                    };
                    names.map(push).is_some()
                }
                _ => false,
            };
            if !pushed {
                rest.push(*condition);
            }
        }
        (filter, rest)
    }

    /// Whether the filter expresses the comparison, which it then gets.
    fn push_comparison(
        &self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
        filter: &mut Filter,
    ) -> bool {
        if is_column(left, "event")
            && let Some(name) = self.constant_string(right)
        {
            match comparison {
                Comparison::Equal => intersect_events(filter, BTreeSet::from([name])),
                Comparison::NotEqual => drop(filter.excluded_events.insert(name)),
                _ => return false,
            }
            return true;
        }
        if !is_column(left, "timestamp") {
            return false;
        }
        let Some(micros) = self.constant_timestamp(right) else { return false };
        let (before, after) = (micros.checked_add(1), micros.checked_sub(1));
        let (after, before) = match comparison {
            Comparison::Greater => (Some(micros), None),
            Comparison::GreaterOrEqual => (after, None),
            Comparison::Less => (None, Some(micros)),
            Comparison::LessOrEqual => (None, before),
            Comparison::Equal => (after, before),
            _ => return false,
        };
        if let Some(after) = after.map(Timestamp::from_micros) {
            filter.after = Some(filter.after.map_or(after, |current| current.max(after)));
        }
        if let Some(before) = before.map(Timestamp::from_micros) {
            filter.before = Some(filter.before.map_or(before, |current| current.min(before)));
        }
        true
    }

    fn constant_string(&self, expr: &Expr) -> Option<String> {
        match self.constant(expr)? {
            ScalarValue::Utf8(text) => text,
            _ => None,
        }
    }

    /// The timestamp of a constant, in microseconds; a date means its midnight.
    fn constant_timestamp(&self, expr: &Expr) -> Option<i64> {
        let timestamp = match expr.ty.kind {
            Kind::Date => {
                let kind = ExprKind::Cast { expr: Box::new(expr.clone()), or_null: false };
                let ty = Type::from(Kind::TIMESTAMP).or_null(expr.ty.nullable);
                self.constant(&Expr { kind, ty, span: expr.span })?
            }
            Kind::DateTime(_) => self.constant(expr)?,
            _ => return None,
        };
        match timestamp {
            ScalarValue::TimestampMicrosecond(micros, _) => micros,
            _ => None,
        }
    }
}

fn is_column(expr: &Expr, column: &str) -> bool {
    matches!(&expr.kind, ExprKind::Column { via, name, .. } if via.is_empty() && *name == column)
}

fn intersect_events(filter: &mut Filter, names: BTreeSet<String>) {
    filter.events = Some(match filter.events.take() {
        None => names,
        Some(current) => current.intersection(&names).cloned().collect(),
    });
}

/// The comparison with its operands swapped.
const fn flipped(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        other => other,
    }
}
