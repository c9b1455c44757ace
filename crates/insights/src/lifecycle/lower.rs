//! Lifecycle as a HogQL statement: the intervals in which each actor is active, then its statuses.

use facts::QueryContext;
use hogql::ast::Query;
use hogql::build::field;
use serde_json::{Value as Json, json};

use super::{LifecycleQuery, STATUSES};
use crate::lower::Statement;
use crate::lower::intervals::Intervals;
use crate::lower::rows::Row;
use crate::lower::selection::{Actor, Lowering, both, within};
use crate::query::calendar::Buckets;
use crate::query::date_range::Period;
use crate::result::InsightResult;
use crate::{Error, Result};

impl LifecycleQuery {
    /// The period, and its buckets with the one before.
    fn buckets(&self, lowering: &Lowering<'_>) -> Result<(Period, Buckets)> {
        let dates = &lowering.scope.dates;
        let period = dates.period(&self.base.date_range, self.spec.interval)?;
        let (_, buckets) = self.scanned_buckets(&lowering.scope, &period)?;
        Ok((period, buckets))
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let lowering = Lowering::new(context, &self.base)?;
        let mut statement = Statement::default();
        let Some(selected) = lowering.selected(self.node()?)? else {
            return statement.finish("SELECT '' AS status WHERE false", &[]);
        };
        let (period, buckets) = self.buckets(&lowering)?;
        let calendar = &lowering.scope.dates.calendar;
        let intervals = Intervals { calendar, buckets: &buckets };
        let group = self.base.aggregation_group_type_index;
        let actor = Actor::of(group);
        let created = match group {
            None => field(&["person", "created_at"]),
            Some(index) => field(&[&format!("group_{index}"), "created_at"]),
        };
        let from = buckets.starts.first().copied().unwrap_or(period.from);
        let filter = both([Some(selected), Some(within(Some(from), period.to)), actor.exists()]);
        let parts = [
            ("actor", actor.expr),
            ("at", intervals.index(field(&["timestamp"]))?),
            ("created", intervals.index(created)?),
            ("filter", filter),
        ];
        statement.cte(
            "activity",
            "SELECT {actor} AS actor, arraySort(groupUniqArray({at})) AS active, min({created}) AS \
             created FROM events WHERE {filter} GROUP BY actor",
            &parts,
        )?;
        statement.cte(
            "statuses",
            "SELECT arrayJoin(arrayConcat(arrayMap(i -> tuple(i, multiIf(has(active, i - 1), \
             'returning', i = active[1] AND ifNull(created = i, false), 'new', 'resurrecting')), \
             active), arrayMap(i -> tuple(i + 1, 'dormant'), arrayFilter(i -> NOT has(active, \
             i + 1), active)))) AS status_at FROM activity",
            &[],
        )?;
        let text = format!(
            "SELECT status, {{buckets}}[at + 1] AS bucket, if(status = 'dormant', -1, 1) * count() \
             AS actors FROM (SELECT status_at.1 AS at, status_at.2 AS status FROM statuses) WHERE \
             at BETWEEN 1 AND {} GROUP BY status, at ORDER BY status, at",
            buckets.len().saturating_sub(1)
        );
        statement.finish(&text, &[("buckets", intervals.list()?)])
    }

    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        let lowering = Lowering::new(context, &self.base)?;
        let (period, _) = self.buckets(&lowering)?;
        let mut counts = vec![[0i64; 4]; period.buckets.len()];
        for row in rows {
            let mut row = Row::new(row);
            let status = row.text()?;
            let bucket = row.bucket(&period.buckets)?;
            let at = STATUSES.iter().position(|(_, word)| *word == status);
            let at = at.ok_or_else(|| Error::invalid("There is no such status."))?;
            counts[bucket][at] = row.number()?.unwrap_or(0.0) as i64;
        }
        let scope = &lowering.scope;
        let results = match lowering.named(self.node()?)? {
            Some(_) => self.shape(scope, self.node()?, &period.buckets, counts)?,
            None => json!([]),
        };
        let calendar = &scope.dates.calendar;
        InsightResult::new(results, calendar, period.from, period.to, self.spec.interval)
    }
}
