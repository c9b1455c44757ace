//! Reads events into memory, where the embedded engine's operators compute what ClickHouse cannot.

use std::sync::Arc;

use ::clickhouse::{EventColumns, Narrowing, PrintedEvents, ReadLimits, print_reads};
use eval::{MemoryCharge, MemoryTracker};
use facts::ReadView;
use hogql::plan::Plan;
use insights::{CountedEvents, HogqlCompiler, InsightActors};
use warehouse::{NewRow, SnapshotBuilder};

use super::ClickHouseView;
use super::at_clickhouse::at_clickhouse;
use crate::drill_down::DrillDown;
use crate::runner::RunResources;
use crate::store::embedded;
use crate::{Error, Result};

/// Events that one query reads from ClickHouse into memory at most.
pub(crate) const PULL_ROWS_MAX: u64 = 2_000_000;
/// Rows between two checks of the memory.
const CHECK_ROWS: u64 = 1_024;

/// A view with the events that were read, and the memory that they take.
pub(super) type Pulled = (Arc<ReadView>, MemoryCharge);

/// Reads the events that a plan reads.
pub(super) async fn pull(
    view: &ClickHouseView,
    plan: Plan,
    columns: Option<EventColumns>,
    run: &RunResources<'_>,
) -> Result<Pulled> {
    let memory = run.memory.clone();
    let limits = ReadLimits { time: run.time_max, memory_bytes: run.memory_bytes };
    let reader = view.reader.clone().with_limits(limits);
    let view = &ClickHouseView { reader, ..view.clone() };
    at_clickhouse(view, run, move |view, query_id| {
        let change = |events: &mut PrintedEvents| {
            if let Some(columns) = columns.clone() {
                events.columns = columns;
            }
        };
        read(view, &plan, change, Some(&query_id), &memory)
    })
    .await
}

/// Reads the events that a plan reads, as `change` changes them. Blocks.
pub(super) fn read(
    view: &ClickHouseView,
    plan: &Plan,
    change: impl Fn(&mut PrintedEvents),
    query_id: Option<&str>,
    memory: &MemoryTracker,
) -> Result<Pulled> {
    let narrowed = |by| {
        let reads = print_reads(plan, &view.reader.schema().promoted(), &view.cohorts, by)?;
        let Some(mut events) = reads else { return Ok((view.facts.clone(), memory.charge())) };
        change(&mut events);
        // ClickHouse may not have forgotten the id of a statement that has ended.
        let id = |what: &str| query_id.map(|id| format!("{id}-{what}-{by:?}"));
        read_events(view, &events, [id("count"), id("read")], memory)
    };
    match narrowed(Narrowing::Printable) {
        // Such as a regular expression that only ClickHouse cannot run.
        Err(Error::Refused(why)) => {
            tracing::warn!(why, "ClickHouse refuses conditions; more events are read");
            narrowed(Narrowing::EventsAndTimes)
        }
        read => read,
    }
}

fn read_events(
    view: &ClickHouseView,
    events: &PrintedEvents,
    [count_id, read_id]: [Option<String>; 2],
    memory: &MemoryTracker,
) -> Result<Pulled> {
    let found = view.reader.count_at_most(events, count_id)?;
    let rows_max = view.pull_rows_max;
    if found > rows_max {
        return Err(Error::Invalid(format!(
            "This query cannot run in ClickHouse and would read {found} events into memory, more \
             than {rows_max} rows. Narrow its date range, or name the events."
        )));
    }
    let mut charge = memory.charge();
    let mut rows = 0;
    let mut snapshot = SnapshotBuilder::new(events.project);
    view.reader.each_event(events, read_id, |row| {
        let groups = std::array::from_fn(|at| row.groups[at].as_deref().map(Into::into));
        snapshot.push(&NewRow {
            project: row.project,
            uuid: row.uuid,
            event: &row.event,
            distinct_id: &row.distinct_id,
            distinct_no: row.distinct_no,
            timestamp: row.timestamp,
            created_at: row.created_at,
            elements_chain: &row.elements_chain,
            groups,
            properties: &row.properties,
            position: row.position,
            historical: row.historical,
        });
        rows += 1;
        if rows % CHECK_ROWS == 0 && !charge.set(snapshot.bytes()) {
            return Err(Error::MemoryLimit);
        }
        Ok::<(), Error>(())
    })?;
    view.add_scanned(rows);
    if !charge.set(snapshot.bytes()) {
        return Err(Error::MemoryLimit);
    }
    let facts = ReadView { events: snapshot.finish(), ..ReadView::clone(&view.facts) };
    Ok((Arc::new(facts), charge))
}

/// The view with the events that an insight counts.
pub(super) async fn pull_insight(
    view: &ClickHouseView,
    insight: &insights::Insight,
    hogql: &HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<Pulled> {
    // All events, if no statement says which ones the insight reads.
    let statement = match insight.to_hogql(view.context()) {
        Ok(statement) => statement,
        Err(_) => hogql::parse("SELECT * FROM events")?,
    };
    let plan = hogql::resolve(&statement, "", hogql.project(), None)?;
    pull(view, plan, Some(EventColumns::all()), run).await
}

pub(in crate::store) async fn actors(
    view: &ClickHouseView,
    point: &DrillDown,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<InsightActors> {
    let (pulled, _charge) = pull_insight(view, &point.insight, &hogql, run).await?;
    embedded::actors(&pulled, point, hogql, run).await
}

pub(in crate::store) async fn counted_events(
    view: &ClickHouseView,
    point: &DrillDown,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<CountedEvents> {
    let (pulled, _charge) = pull_insight(view, &point.insight, &hogql, run).await?;
    embedded::counted_events(&pulled, point, hogql, run).await
}
