//! The seam for reading: what this crate asks of a warehouse, whatever engine stores the rows.
//!
//! A [`Store`] has the events of all projects; a [`View`] has those of one project at one position,
//! together with the [`QueryContext`] that conditions are read in. Conditions arrive as plain data:
//! filter expressions, plans of statements, insight queries. What an engine makes of them stays
//! inside its module, so that a further engine is a further variant here and a module beside
//! `embedded`.

pub(crate) mod clickhouse;
pub(crate) mod embedded;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use facts::{ActionExpr, QueryContext, ReadView};
use hogql::plan::Plan;
use insights::{Actor, CountedEvents, HogqlCompiler, Insight, InsightActors, InsightResult};
use model::filter_expr::FilterExpr;
use model::property::BehavioralFilter;
use model::{ActionId, CohortId, ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{
    ColumnKey, Cursor, DenseIdSet, EventRow, EventSelection, ScanStats, ValueCount, Warehouse,
    Window,
};

use self::clickhouse::ClickHouseView;
use crate::Result;
use crate::drill_down::DrillDown;
use crate::runner::RunResources;

/// The events of all projects; cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    /// Segments and a memtable in this process.
    Embedded(Warehouse),
    /// Tables of ClickHouse.
    ClickHouse(::clickhouse::Reader),
}

/// A project's events at one position, in the context of a query.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Embedded(Arc<ReadView>),
    ClickHouse(ClickHouseView),
}

/// Which events to list; the conditions are joined by AND.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventConditions {
    pub events: Option<BTreeSet<String>>,
    pub distinct_nos: Option<DenseIdSet>,
    /// Exclusive lower bound.
    pub after: Option<Timestamp>,
    /// Exclusive upper bound.
    pub before: Option<Timestamp>,
    pub filters: FilterExpr,
    pub action: Option<ActionExpr>,
}

/// Which values to count.
#[derive(Clone, Debug)]
pub(crate) struct ValueSearch {
    pub key: ColumnKey,
    pub conditions: EventConditions,
    /// Only values that contain this lower-case string, ignoring case.
    pub containing: Option<String>,
    pub limit: usize,
}

/// The events of a list, found but not read yet.
#[derive(Clone, Debug)]
pub(crate) enum EventList {
    Embedded(Arc<EventSelection>),
    ClickHouse(Arc<clickhouse::Selection>),
}

/// The persons that match each behavioral filter.
pub(crate) type MatchingPersons = HashMap<BehavioralFilter, DenseIdSet>;

impl Store {
    /// How many events a project has. Blocks.
    pub fn event_count(&self, project: ProjectId) -> Result<u64> {
        match self {
            Self::Embedded(warehouse) => Ok(warehouse.snapshot(project).totals().events),
            Self::ClickHouse(reader) => Ok(reader.count(project, &Default::default())?),
        }
    }

    /// The event with this uuid; if several have it, the one appended last. Blocks.
    pub(crate) fn get(&self, project: ProjectId, uuid: Uuid) -> Result<Option<EventRow>> {
        match self {
            Self::Embedded(warehouse) => Ok(warehouse.snapshot(project).get(uuid)?),
            Self::ClickHouse(reader) => Ok(reader.get(project, uuid)?),
        }
    }

    /// A view for conditions that read nothing but events.
    pub(crate) fn events_view(&self, context: QueryContext) -> View {
        match self {
            Self::Embedded(warehouse) => embedded::events_view(warehouse, context),
            Self::ClickHouse(reader) => View::ClickHouse(clickhouse::events_view(reader, context)),
        }
    }

    /// Called after much memory was freed; see [`warehouse::Settings::purge`].
    pub(crate) fn purge_hook(&self) -> fn() {
        match self {
            Self::Embedded(warehouse) => warehouse.purge_hook(),
            Self::ClickHouse(_) => || {},
        }
    }
}

impl View {
    pub fn context(&self) -> &QueryContext {
        match self {
            Self::Embedded(view) => &view.context,
            Self::ClickHouse(view) => view.context(),
        }
    }

    /// What queries of this view have scanned so far.
    pub fn scan_stats(&self) -> ScanStats {
        match self {
            Self::Embedded(view) => view.events.scan_stats(),
            Self::ClickHouse(view) => view.scan_stats(),
        }
    }

    /// Finds the events of a list. Blocks.
    pub fn list(&self, conditions: EventConditions, window: &Window) -> Result<EventList> {
        match self {
            Self::Embedded(view) => embedded::list(view, conditions, window),
            Self::ClickHouse(view) => clickhouse::list(view, conditions, window),
        }
    }

    /// Counts the most frequent values, without null and the empty string. Blocks.
    pub fn values(&self, search: ValueSearch) -> Result<Vec<ValueCount>> {
        match self {
            Self::Embedded(view) => embedded::values(view, search),
            Self::ClickHouse(view) => clickhouse::values(view, search),
        }
    }

    /// Runs a statement.
    pub async fn statement(&self, plan: &Plan, run: &RunResources<'_>) -> Result<sql::ResultSet> {
        match self {
            Self::Embedded(view) => embedded::statement(view, plan, run).await,
            Self::ClickHouse(view) => clickhouse::statement(view, plan, run).await,
        }
    }

    /// Computes an insight, and prints the statement that computes it too.
    pub async fn insight(
        &self,
        insight: &Insight,
        hogql: HogqlCompiler,
        run: &RunResources<'_>,
    ) -> Result<(InsightResult, insights::Result<String>)> {
        match self {
            Self::Embedded(view) => embedded::insight(view, insight, hogql, run).await,
            Self::ClickHouse(view) => clickhouse::insight(view, insight, hogql, run).await,
        }
    }

    /// The actors of a data point.
    pub async fn actors(
        &self,
        point: &DrillDown,
        hogql: HogqlCompiler,
        run: &RunResources<'_>,
    ) -> Result<InsightActors> {
        match self {
            Self::Embedded(view) => embedded::actors(view, point, hogql, run).await,
            Self::ClickHouse(view) => clickhouse::actors(view, point, hogql, run).await,
        }
    }

    /// The events of a data point.
    pub async fn counted_events(
        &self,
        point: &DrillDown,
        hogql: HogqlCompiler,
        run: &RunResources<'_>,
    ) -> Result<CountedEvents> {
        match self {
            Self::Embedded(view) => embedded::counted_events(view, point, hogql, run).await,
            Self::ClickHouse(view) => clickhouse::counted_events(view, point, hogql, run).await,
        }
    }

    /// The persons that match each of the behavioral filters.
    pub async fn matching_persons(
        &self,
        behaviours: Vec<BehavioralFilter>,
        run: &RunResources<'_>,
    ) -> Result<MatchingPersons> {
        match self {
            Self::Embedded(view) => embedded::matching_persons(view, behaviours, run).await,
            Self::ClickHouse(view) => clickhouse::matching_persons(view, behaviours, run).await,
        }
    }

    /// Keeps the actors that are stored persons or groups; some only have events.
    pub fn retain_stored(&self, drill_down: &mut InsightActors) {
        match self {
            Self::Embedded(view) => embedded::retain_stored(view, drill_down),
            Self::ClickHouse(view) => clickhouse::retain_stored(view, drill_down),
        }
    }

    /// The actors of a drill-down by their ids: uuids of persons, keys of groups.
    pub fn actors_by_id(&self, drill_down: InsightActors) -> HashMap<String, Actor> {
        match self {
            Self::Embedded(view) => embedded::actors_by_id(view, drill_down),
            Self::ClickHouse(view) => clickhouse::actors_by_id(view, drill_down),
        }
    }

    /// The view in which a statement can tell the actors of a drill-down from all others: persons as
    /// the members of `cohort`, groups by removing all others.
    pub fn restrict_to_actors(&self, cohort: CohortId, drill_down: &InsightActors) -> Self {
        match self {
            Self::Embedded(view) => Self::Embedded(embedded::of_actors(view, cohort, drill_down)),
            Self::ClickHouse(view) => {
                Self::ClickHouse(clickhouse::restrict_to_actors(view, cohort, drill_down))
            }
        }
    }

    /// The view in which statements see only the events of an action, none if it is missing, and
    /// those of a data point.
    pub fn restrict_to_events(
        &self,
        action: Option<ActionId>,
        counted: Option<CountedEvents>,
    ) -> Result<Self> {
        match self {
            Self::Embedded(view) => Ok(Self::Embedded(embedded::of_events(view, action, counted)?)),
            Self::ClickHouse(view) => {
                Ok(Self::ClickHouse(clickhouse::restrict_to_events(view, action, counted)?))
            }
        }
    }
}

impl EventList {
    /// The cursor of the last event, if there are more after it.
    pub fn next(&self) -> Option<&Cursor> {
        match self {
            Self::Embedded(selection) => selection.next(),
            Self::ClickHouse(selection) => selection.next(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Embedded(selection) => selection.len(),
            Self::ClickHouse(selection) => selection.len(),
        }
    }

    /// Reads a range of the events, clipped to the end of the list. Blocks.
    pub fn read(&self, events: Range<usize>) -> Result<Vec<EventRow>> {
        match self {
            Self::Embedded(selection) => Ok(selection.read(events)?),
            Self::ClickHouse(selection) => selection.read(events),
        }
    }
}
