//! The ClickHouse engine. What can be printed runs where the events are; everything else reads the
//! events that it needs, and is computed by the embedded engine's operators.
//!
//! Persons, groups, cohorts and actions are those of the catalog, as the embedded engine has them.

mod at_clickhouse;
mod behavioral;
mod lists;
mod pull;
mod statements;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::clickhouse::{PrintContext, Reader};
use facts::{Groups, PersonIndex, QueryContext, ReadView};
use hogql::Project;
use hogql::ast::Body;
use hogql::plan::Expr;
use insights::{Actor, CountedEvents, InsightActors};
use model::{ActionId, CohortId};
use warehouse::{ScanStats, Snapshot};

use super::embedded::{self, assemble};
use crate::Result;

pub(super) use behavioral::matching_persons;
pub(super) use lists::{Selection, list, values};
pub(super) use pull::{actors, counted_events};
pub(super) use statements::{insight, statement};

/// A project's events at ClickHouse, and the facts that go with them.
#[derive(Clone, Debug)]
pub(crate) struct ClickHouseView {
    reader: Reader,
    /// Without events.
    facts: Arc<ReadView>,
    cohorts: Arc<PrintContext>,
    /// What HogQL resolves names against.
    schema: Arc<Project>,
    restriction: Restriction,
    /// See [`pull::PULL_ROWS_MAX`].
    pull_rows_max: u64,
    rows_scanned: Arc<AtomicU64>,
}

impl ClickHouseView {
    pub fn new(
        reader: Reader,
        facts: ReadView,
        cohorts: PrintContext,
        schema: Arc<Project>,
    ) -> Self {
        let (facts, cohorts) = (Arc::new(facts), Arc::new(cohorts));
        Self {
            reader,
            facts,
            cohorts,
            schema,
            restriction: Restriction::None,
            pull_rows_max: pull::PULL_ROWS_MAX,
            rows_scanned: Arc::default(),
        }
    }

    pub fn context(&self) -> &QueryContext {
        &self.facts.context
    }

    pub fn scan_stats(&self) -> ScanStats {
        let rows_scanned = self.rows_scanned.load(Ordering::Relaxed);
        ScanStats { rows_scanned, ..ScanStats::default() }
    }

    fn add_scanned(&self, rows: u64) {
        self.rows_scanned.fetch_add(rows, Ordering::Relaxed);
    }

    fn restricted(&self, facts: Arc<ReadView>, restriction: Restriction) -> Self {
        Self { facts, restriction, ..self.clone() }
    }
}

/// What statements of a view see.
#[derive(Clone, Debug)]
enum Restriction {
    /// Everything.
    None,
    /// The events that pass a condition on the only source of a select.
    Events(Arc<Expr>),
    /// Facts or events that only this process can restrict.
    Here,
}

/// What printed statements depend on besides the plan, for a context without cohorts.
pub(crate) fn print_context(context: &QueryContext) -> PrintContext {
    PrintContext {
        now: context.now,
        week_starts_monday: context.week_starts_monday,
        cohorts: HashMap::new(),
        static_cohorts: Default::default(),
    }
}

pub(super) fn events_view(reader: &Reader, context: QueryContext) -> ClickHouseView {
    let project = context.project;
    let zone = context.zone.time_zone().iana_name().unwrap_or("UTC").to_owned();
    let schema = Project {
        id: project,
        zone,
        groups: Default::default(),
        properties: Default::default(),
        cohorts: Default::default(),
        actions: Default::default(),
        objects: Default::default(),
    };
    let cohorts = print_context(&context);
    let people = Arc::new(PersonIndex::new(project));
    let facts = assemble(context, Snapshot::empty(project), people, Arc::<Groups>::default());
    ClickHouseView::new(reader.clone(), facts, cohorts, Arc::new(schema))
}

pub(super) fn retain_stored(view: &ClickHouseView, drill_down: &mut InsightActors) {
    embedded::retain_stored(&view.facts, drill_down);
}

pub(super) fn actors_by_id(
    view: &ClickHouseView,
    drill_down: InsightActors,
) -> HashMap<String, Actor> {
    embedded::actors_by_id(&view.facts, drill_down)
}

pub(super) fn restrict_to_actors(
    view: &ClickHouseView,
    cohort: CohortId,
    drill_down: &InsightActors,
) -> ClickHouseView {
    view.restricted(embedded::of_actors(&view.facts, cohort, drill_down), Restriction::Here)
}

pub(super) fn restrict_to_events(
    view: &ClickHouseView,
    action: Option<ActionId>,
    counted: Option<CountedEvents>,
) -> Result<ClickHouseView> {
    let restriction = match (action, &counted) {
        (None, None) => return Ok(view.clone()),
        (Some(id), None) => condition_of(view, id).map_or(Restriction::Here, Restriction::Events),
        (_, Some(_)) => Restriction::Here,
    };
    Ok(view.restricted(embedded::of_events(&view.facts, action, counted)?, restriction))
}

/// The condition of an action on events; none if it is missing, or cannot be resolved.
fn condition_of(view: &ClickHouseView, action: ActionId) -> Option<Arc<Expr>> {
    let condition = view.schema.actions.get(&action)?.condition.clone();
    let mut query = hogql::parse("SELECT 1 FROM events").ok()?;
    let Body::Select(select) = &mut query.body else { return None };
    select.filter = Some(condition);
    let plan = hogql::resolve(&query, "", &view.schema, None).ok()?;
    match plan.root.body {
        hogql::plan::Body::Select(select) => select.filter.map(Arc::new),
        hogql::plan::Body::Set { .. } => None,
    }
}
