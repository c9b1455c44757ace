//! Predicate pushdown: the part of a query's conditions that lets the warehouse skip rows.

use std::collections::BTreeSet;

use datafusion_common::ScalarValue;
use hogql::plan::{Comparison, Expr, ExprKind, Set};
use hogql::types::{Kind, Type};
use model::Timestamp;
use warehouse::Filter;

use crate::lower::Lowering;

impl Lowering {
    /// A filter that passes at least the rows that the conditions do.
    pub(super) fn pushdown_filter(&self, conditions: &[&Expr]) -> Filter {
        let mut filter = Filter::default();
        for condition in conditions {
            match &condition.kind {
                ExprKind::Compare(comparison, sides) => {
                    let (left, right) = (&sides[0], &sides[1]);
                    self.push_comparison(*comparison, left, right, &mut filter);
                    self.push_comparison(flipped(*comparison), right, left, &mut filter);
                }
                ExprKind::In { expr, set: Set::List(items), negated: false }
                    if is_column(expr, "event") =>
                {
                    let names = items.iter().map(|item| self.constant_string(item));
                    if let Some(names) = names.collect::<Option<BTreeSet<String>>>() {
                        intersect_events(&mut filter, names);
                    }
                }
                _ => {}
            }
        }
        filter
    }

    fn push_comparison(
        &self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
        filter: &mut Filter,
    ) {
        if is_column(left, "event")
            && comparison == Comparison::Equal
            && let Some(name) = self.constant_string(right)
        {
            intersect_events(filter, BTreeSet::from([name]));
        }
        if !is_column(left, "timestamp") {
            return;
        }
        let Some(micros) = self.constant_timestamp(right) else { return };
        let after = match comparison {
            Comparison::Greater => Some(micros),
            Comparison::GreaterOrEqual | Comparison::Equal => micros.checked_sub(1),
            _ => None,
        };
        let before = match comparison {
            Comparison::Less => Some(micros),
            Comparison::LessOrEqual | Comparison::Equal => micros.checked_add(1),
            _ => None,
        };
        if let Some(after) = after.map(Timestamp::from_micros) {
            filter.after = Some(filter.after.map_or(after, |current| current.max(after)));
        }
        if let Some(before) = before.map(Timestamp::from_micros) {
            filter.before = Some(filter.before.map_or(before, |current| current.min(before)));
        }
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
