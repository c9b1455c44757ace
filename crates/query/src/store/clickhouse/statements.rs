//! Statements and insights, printed.

use std::time::Duration;

use ::clickhouse::{Batches, Printed, event_reads, print};
use eval::{MemoryTracker, json_value};
use hogql::plan::{Body, Expr, ExprKind, JoinedSource, Plan, Source};
use hogql::tables::Table;
use insights::{HogqlCompiler, Insight, InsightResult, QueryLimits};
use model::Zone;
use sql::ResultSet;

use super::at_clickhouse::at_clickhouse;
use super::pull::{pull, pull_insight};
use super::{ClickHouseView, Restriction};
use crate::runner::RunResources;
use crate::store::embedded;
use crate::{Error, Result};

/// Rows of an insight's statement: its breakdowns and intervals bound them long before.
const INSIGHT_ROWS_MAX: u64 = 1_000_000;
/// How much more memory JSON takes than the columns it is made from.
const JSON_OVERHEAD: usize = 4;

pub(in crate::store) async fn statement(
    view: &ClickHouseView,
    plan: &Plan,
    run: &RunResources<'_>,
) -> Result<ResultSet> {
    if let Some(rows) = printed(view, plan, run).await? {
        return Ok(rows);
    }
    // What restricts the view may read any column.
    let columns = view.facts.event_filter.is_some().then(::clickhouse::EventColumns::all);
    let (pulled, _charge) = pull(view, plan.clone(), columns, run).await?;
    embedded::statement(&pulled, plan, run).await
}

pub(in crate::store) async fn insight(
    view: &ClickHouseView,
    insight: &Insight,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<(InsightResult, insights::Result<String>)> {
    let context = view.context();
    match insight.to_hogql(context) {
        Ok(statement) => {
            let mut plan = hogql::resolve(&statement, "", hogql.project(), None)?;
            plan.page.limit = INSIGHT_ROWS_MAX;
            if let Some(rows) = printed(view, &plan, run).await? {
                if rows.has_more {
                    return Err(Error::Invalid(format!(
                        "The insight has more than {INSIGHT_ROWS_MAX} values; narrow it."
                    )));
                }
                let result = insight.result_of_rows(context, &rows.rows)?;
                return Ok((result, insight.hogql_text(context)));
            }
        }
        // An invalid query is no reason to read events.
        Err(_) => {
            let limits = QueryLimits::new(None, run.cancel.flag.clone(), run.memory_bytes);
            insight.run_with(&view.facts, &limits, Some(&hogql))?;
        }
    }
    let (pulled, _charge) = pull_insight(view, insight, &hogql, run).await?;
    embedded::insight(&pulled, insight, hogql, run).await
}

/// The rows of a plan; none if ClickHouse cannot compute it.
async fn printed(
    view: &ClickHouseView,
    plan: &Plan,
    run: &RunResources<'_>,
) -> Result<Option<ResultSet>> {
    let filtered;
    let plan = match &view.restriction {
        Restriction::None => plan,
        Restriction::Events(condition) => match of_events(plan, condition) {
            Some(plan) => {
                filtered = plan;
                &filtered
            }
            None => return Ok(None),
        },
        Restriction::Here => return Ok(None),
    };
    let printed = match print(plan, &view.reader.schema().promoted(), &view.cohorts) {
        Ok(printed) => printed,
        Err(::clickhouse::Error::Unsupported { what }) => {
            tracing::debug!(what, "a statement is not printed");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let (plan, explains) = (plan.clone(), run.explains);
    let (memory, memory_max, time_max) = (run.memory.clone(), run.memory_bytes, run.time_max);
    let found = at_clickhouse(view, run, move |view, query_id| {
        let explained = if explains { lines(&printed) } else { Vec::new() };
        let zone = &view.facts.context.zone;
        let rows = view.run(printed, query_id, time_max, memory_max)?;
        result_set(&plan, rows, zone, &memory, explained)
    });
    match found.await {
        // ClickHouse is stricter about some types than HogQL is.
        Err(Error::Refused(why)) => {
            tracing::warn!(why, "ClickHouse refuses a printed statement");
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// The plan with a further condition on its events, if it selects from nothing else.
fn of_events(plan: &Plan, condition: &Expr) -> Option<Plan> {
    let is_one = event_reads(plan) == 1;
    let mut plan = plan.clone();
    let Body::Select(select) = &mut plan.root.body else { return None };
    let is_events =
        |source: &JoinedSource| matches!(source.source, Source::Table(Table::Events, _));
    if !select.sources.iter().all(is_events) || !is_one {
        return None;
    }
    let own = select.filter.take();
    let (ty, span) = (condition.ty.clone(), condition.span);
    let parts = own.into_iter().chain([condition.clone()]).collect();
    select.filter = Some(Expr { kind: ExprKind::And(parts), ty, span });
    Some(plan)
}

impl ClickHouseView {
    pub(super) fn run(
        &self,
        printed: Printed,
        query_id: String,
        time_max: Duration,
        memory_max: usize,
    ) -> Result<Batches> {
        let mut statement = printed.statement;
        statement.query_id = Some(query_id);
        statement.timeout = Some(time_max);
        statement.settings.extend([
            ("max_memory_usage", memory_max.to_string()),
            // So that the summary counts all rows, and an error is one before any row is sent.
            ("wait_end_of_query", "1".to_owned()),
        ]);
        let batches = self.reader.client().select(&statement)?;
        self.add_scanned(batches.rows_read());
        Ok(batches)
    }
}

/// The result as the embedded engine shapes it.
fn result_set(
    plan: &Plan,
    batches: Batches,
    zone: &Zone,
    memory: &MemoryTracker,
    explained: Vec<String>,
) -> Result<ResultSet> {
    let types: Vec<_> = plan.root.columns.iter().map(|column| column.ty.clone()).collect();
    let (mut rows, mut bytes, mut charge) = (Vec::new(), 0, memory.charge());
    for batch in batches {
        let batch = batch?;
        bytes += batch.get_array_memory_size() * JSON_OVERHEAD;
        if !charge.set(bytes) {
            return Err(Error::MemoryLimit);
        }
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter().zip(&types);
            let values = columns.map(|(column, ty)| json_value(column, ty, row, zone.time_zone()));
            rows.push(values.collect::<Vec<_>>());
        }
    }
    let limit = usize::try_from(plan.page.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let columns = plan.root.columns.iter().map(|column| column.name.clone()).collect();
    Ok(ResultSet { columns, types, rows, has_more, plan: explained })
}

fn lines(printed: &Printed) -> Vec<String> {
    vec!["ClickHouse:".to_owned(), format!("  {}", printed.statement.text)]
}
