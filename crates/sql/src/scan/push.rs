//! What of a query's conditions the warehouse can use to leave rows unread.

use std::collections::BTreeSet;

use datafusion_common::ScalarValue;
use hogql::plan::{Comparison, Expr, ExprKind, Set};
use hogql::types::{Kind, Type};
use model::Timestamp;
use warehouse::Filter;

use crate::lower::Lower;

impl Lower {
    /// Lets through at least what the conditions do.
    pub(super) fn pushed(&self, conditions: &[&Expr]) -> Filter {
        let mut filter = Filter::default();
        for condition in conditions {
            match &condition.kind {
                ExprKind::Compare(comparison, sides) => {
                    let (left, right) = (&sides[0], &sides[1]);
                    self.compared(*comparison, left, right, &mut filter);
                    self.compared(turned(*comparison), right, left, &mut filter);
                }
                ExprKind::In { expr, set: Set::List(items), negated: false }
                    if is(expr, "event") =>
                {
                    let names = items.iter().map(|item| self.text(item));
                    if let Some(names) = names.collect::<Option<BTreeSet<String>>>() {
                        among(&mut filter, names);
                    }
                }
                _ => {}
            }
        }
        filter
    }

    fn compared(&self, comparison: Comparison, left: &Expr, right: &Expr, filter: &mut Filter) {
        if is(left, "event")
            && comparison == Comparison::Equal
            && let Some(name) = self.text(right)
        {
            among(filter, BTreeSet::from([name]));
        }
        if !is(left, "timestamp") {
            return;
        }
        let Some(micros) = self.moment(right) else { return };
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
            filter.after = Some(filter.after.map_or(after, |own| own.max(after)));
        }
        if let Some(before) = before.map(Timestamp::from_micros) {
            filter.before = Some(filter.before.map_or(before, |own| own.min(before)));
        }
    }

    fn text(&self, expr: &Expr) -> Option<String> {
        match self.constant(expr)? {
            ScalarValue::Utf8(text) => text,
            _ => None,
        }
    }

    /// A moment that is known before anything runs; a date begins at its midnight.
    fn moment(&self, expr: &Expr) -> Option<i64> {
        let as_moment = match expr.ty.kind {
            Kind::Date => {
                let kind = ExprKind::Cast { expr: Box::new(expr.clone()), or_null: false };
                let ty = Type::from(Kind::TIMESTAMP).or_null(expr.ty.nullable);
                self.constant(&Expr { kind, ty, span: expr.span })?
            }
            Kind::DateTime(_) => self.constant(expr)?,
            _ => return None,
        };
        match as_moment {
            ScalarValue::TimestampMicrosecond(micros, _) => micros,
            _ => None,
        }
    }
}

fn is(expr: &Expr, column: &str) -> bool {
    matches!(&expr.kind, ExprKind::Column { via, name, .. } if via.is_empty() && *name == column)
}

fn among(filter: &mut Filter, names: BTreeSet<String>) {
    filter.events = Some(match filter.events.take() {
        None => names,
        Some(own) => own.intersection(&names).cloned().collect(),
    });
}

/// With its sides changed.
const fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        other => other,
    }
}
