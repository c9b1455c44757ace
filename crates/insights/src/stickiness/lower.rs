//! Stickiness as a HogQL statement: the intervals in which each actor is active, counted.

use facts::QueryContext;
use hogql::ast::{Expr, Query};
use hogql::build::{field, int};
use serde_json::{Value as Json, json};

use super::{ComputedAs, Criteria, Operator, StickinessQuery};
use crate::lower::intervals::Intervals;
use crate::lower::rows::Row;
use crate::lower::selection::{Actor, Lowering, both, within};
use crate::lower::{Statement, expression};
use crate::query::date_range::Period;
use crate::query::spec::{Math, Node};
use crate::result::InsightResult;
use crate::{Error, Result};

const PERIODS: [&str; 2] = ["current", "previous"];

impl StickinessQuery {
    /// The period, and the one that it is compared with.
    fn periods(&self, lowering: &Lowering<'_>) -> Result<Vec<Period>> {
        let (dates, range) = (&lowering.scope.dates, &self.base.date_range);
        let period = dates.period(range, self.spec.interval)?;
        let previous = dates.previous(&period, range, &self.spec.compare_filter)?;
        Ok([Some(period), previous].into_iter().flatten().collect())
    }

    fn actor(&self, node: &Node) -> Result<Actor> {
        match node.math {
            Math::UniqueGroup => Ok(Actor::group(node.math_group_type_index.unwrap_or(0))),
            Math::Hogql => Actor::of_expression(node.math_hogql.as_deref().unwrap_or_default()),
            _ => Ok(Actor::of(self.base.aggregation_group_type_index)),
        }
    }

    /// What identifies the window that contains a time: its interval, or if it is of several its number,
    /// counted back from the last.
    fn window(&self, intervals: Intervals<'_>, time: Expr) -> Result<Expr> {
        if self.interval_count() == 1 {
            return intervals.bucket(time);
        }
        let last = intervals.buckets.len().saturating_sub(1) as u64;
        let parts = [
            ("last", int(last)),
            ("index", intervals.index(time)?),
            ("count", int(self.interval_count() as u64)),
        ];
        expression("intDiv({last} - {index}, {count})", &parts)
    }

    fn is_cumulative(&self) -> bool {
        self.spec.stickiness_filter.computed_as == ComputedAs::Cumulative
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let lowering = Lowering::new(context, &self.base)?;
        let mut statement = Statement::default();
        let mut selects = Vec::new();
        for (period, word) in self.periods(&lowering)?.iter().zip(PERIODS) {
            for (order, node) in self.spec.series.iter().enumerate() {
                let Some(selected) = lowering.selected(node)? else { continue };
                let calendar = &lowering.scope.dates.calendar;
                let intervals = Intervals { calendar, buckets: &period.buckets };
                let actor = self.actor(node)?;
                let time = within(Some(period.from), period.to);
                let mut parts = vec![
                    ("filter", both([Some(selected), Some(time), actor.exists()])),
                    ("actor", actor.expr),
                    ("bucket", self.window(intervals, field(&["timestamp"]))?),
                ];
                let active = match self.spec.stickiness_filter.stickiness_criteria {
                    None | Some(Criteria { operator: Operator::Gte, value: 0 | 1 }) => {
                        "SELECT {actor} AS actor, uniqExact({bucket}) AS intervals FROM events \
                         WHERE {filter} GROUP BY actor"
                            .to_owned()
                    }
                    Some(Criteria { operator, value }) => {
                        parts.push(("least", int(value)));
                        let sign = match operator {
                            Operator::Gte => ">=",
                            Operator::Lte => "<=",
                            Operator::Exact => "=",
                        };
                        format!(
                            "SELECT actor, count() AS intervals FROM (SELECT {{actor}} AS actor, \
                             {{bucket}} AS bucket FROM events WHERE {{filter}} GROUP BY actor, \
                             bucket HAVING count() {sign} {{least}}) GROUP BY actor"
                        )
                    }
                };
                let name = format!("active_{}_{word}", order + 1);
                statement.cte(&name, &active, &parts)?;
                let counted = match self.is_cumulative() {
                    false => name,
                    // An actor that is active in three intervals also is in two or more.
                    true => format!(
                        "(SELECT arrayJoin(range(1, intervals + 1)) AS intervals FROM {name})"
                    ),
                };
                selects.push(format!(
                    "SELECT {order} AS series, '{word}' AS period, intervals, count() AS actors \
                     FROM {counted} GROUP BY intervals"
                ));
            }
        }
        if selects.is_empty() {
            return statement.finish("SELECT 0 AS series WHERE false", &[]);
        }
        let text = format!(
            "SELECT series, period, intervals, actors FROM ({}) ORDER BY period, series, intervals",
            selects.join(" UNION ALL ")
        );
        statement.finish(&text, &[])
    }

    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        let lowering = Lowering::new(context, &self.base)?;
        let periods = self.periods(&lowering)?;
        let mut items = Vec::new();
        for (period, word) in periods.iter().zip(PERIODS) {
            for (order, node) in self.spec.series.iter().enumerate() {
                if lowering.named(node)?.is_none() {
                    continue;
                }
                let windows = period.buckets.len().div_ceil(self.interval_count());
                let mut counts = vec![0u64; windows];
                for row in rows {
                    let mut row = Row::new(row);
                    if row.count()? != order as u64 || row.text()? != word {
                        continue;
                    }
                    let intervals = row.count()? as usize;
                    let at = intervals.checked_sub(1).and_then(|at| counts.get_mut(at));
                    *at.ok_or_else(|| Error::invalid("There is no such interval."))? =
                        row.count()?;
                }
                if self.is_cumulative() {
                    (1..counts.len()).for_each(|at| counts[at - 1] -= counts[at]);
                }
                let mut item = self.item(&lowering.scope, node, order, &counts);
                if periods.len() > 1 {
                    item["compare"] = json!(true);
                    item["compare_label"] = json!(word);
                }
                items.push(item);
            }
        }
        let calendar = &lowering.scope.dates.calendar;
        let Period { from, to, .. } = periods[0];
        InsightResult::new(Json::Array(items), calendar, from, to, self.spec.interval)
    }
}
