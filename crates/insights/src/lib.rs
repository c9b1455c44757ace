//! Insights: trends, funnels, retention, lifecycle, stickiness and paths.
//!
//! The crate sits on the read path between `query`, which receives insight queries, and the
//! warehouse's columns. A result is a pure function of the query and a [`facts::ReadView`]: no HTTP,
//! no catalog, no async. Distinct counts are exact.
//!
//! Modules, each using only those above it:
//! - `limits`: deadline, cancellation, memory and admission control of a query.
//! - `query`: the JSON of a query, date ranges, calendar buckets.
//! - `columns`, `aggregates`: dictionary-coded columns, aggregate functions and tables.
//! - `hogql`: HogQL expressions compiled to conditions, values and aggregates over events.
//! - `scan`: the parallel pass over events; series selection, breakdowns, sessions, and per-actor
//!   activity, first events and event sequences.
//! - `actors`, `counted_events`: drill-down from a data point to its actors, and to its events;
//!   `behavioral`: persons that match a cohort's behavioral filter.
//! - `trends`, `funnels`, `retention`, `lifecycle`, `stickiness`, `paths`: one module per kind.
//! - `lower`: an insight as a HogQL statement, and its result from the statement's rows.
//! - `web_analytics`, `timeline`, `funnels::lower::correlation`: queries that one statement computes,
//!   without operators (`statement_query`).
//! - `check`: validates a query by a dry run.

mod actors;
mod aggregates;
mod behavioral;
mod check;
mod columns;
mod counted_events;
mod error;
mod funnels;
mod hogql;
mod lifecycle;
mod limits;
mod lower;
mod paths;
mod query;
mod result;
mod retention;
mod scan;
pub mod schema;
mod statement_query;
mod stickiness;
mod timeline;
mod trends;
mod web_analytics;

pub use actors::{Actor, DataPoint, InsightActors};
pub use behavioral::{Behavior, behavior, behavioral_needs, matching_persons};
pub use check::check_filter;
pub use counted_events::CountedEvents;
pub use error::{Error, Result};
pub use funnels::FunnelsQuery;
pub use hogql::HogqlCompiler;
pub use lifecycle::LifecycleQuery;
pub use limits::{AdmissionControl, QueryLimits};
pub use paths::PathsQuery;
pub use query::calendar::Interval;
pub use query::noop_keys::strip_noop_keys;
pub use query::spec::Overrides;
pub use result::InsightResult;
pub use retention::RetentionQuery;
pub use statement_query::{StatementQuery, StatementResult};
pub use stickiness::StickinessQuery;
pub use trends::TrendsQuery;
pub use web_analytics::WebQuery;

use std::collections::BTreeSet;

use facts::{Needs, ReadView};
use model::{ActionId, CohortId};
use serde_json::Value as Json;

use query::spec::{Base, BreakdownFilter, Math, Node, NodeKind};
use scan::breakdown;

/// An insight query of any kind.
#[derive(Clone, Debug)]
pub enum Insight {
    Trends(TrendsQuery),
    Funnels(FunnelsQuery),
    Retention(Box<RetentionQuery>),
    Lifecycle(LifecycleQuery),
    Stickiness(StickinessQuery),
    Paths(PathsQuery),
}

impl Insight {
    /// None if `kind` is not an insight query.
    pub fn parse(kind: &str, json: &Json) -> Option<Result<Self>> {
        Some(match kind {
            "TrendsQuery" => TrendsQuery::parse(json).map(Self::Trends),
            "FunnelsQuery" => FunnelsQuery::parse(json).map(Self::Funnels),
            "RetentionQuery" => {
                RetentionQuery::parse(json).map(|query| Self::Retention(Box::new(query)))
            }
            "LifecycleQuery" => LifecycleQuery::parse(json).map(Self::Lifecycle),
            "StickinessQuery" => StickinessQuery::parse(json).map(Self::Stickiness),
            "PathsQuery" => PathsQuery::parse(json).map(Self::Paths),
            _ => return None,
        })
    }

    /// Applies the filter overrides of a dashboard or a request.
    pub fn apply_filters(&mut self, dashboard: &Overrides) {
        match self {
            Self::Trends(query) => query.apply(dashboard),
            Self::Funnels(query) => query.apply(dashboard),
            Self::Retention(query) => query.apply(dashboard),
            Self::Lifecycle(query) => query.apply(dashboard),
            Self::Stickiness(query) => query.apply(dashboard),
            Self::Paths(query) => query.apply(dashboard),
        }
    }

    /// Sets the project's `path_cleaning_filters`, a list of `{alias, regex}`, which paths queries may
    /// apply.
    pub fn set_path_cleaning(&mut self, rules: &Json) {
        if let Self::Paths(query) = self {
            query.set_cleaning(rules);
        }
    }

    /// Runs without a HogQL compiler: expressions other than column names are an error.
    pub fn run(&self, view: &ReadView, limits: &QueryLimits) -> Result<InsightResult> {
        self.run_with(view, limits, None)
    }

    /// `hogql` compiles expressions in math, breakdowns and paths; [`ReadView::expressions`] compiles
    /// those in filters.
    pub fn run_with(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let view = &self.with_sessions(view, limits)?;
        match self {
            Self::Trends(query) => query.run(view, limits, hogql),
            Self::Funnels(query) => query.run(view, limits, hogql),
            Self::Retention(query) => query.run(view, limits, hogql),
            Self::Lifecycle(query) => query.run(view, limits, hogql),
            Self::Stickiness(query) => query.run(view, limits, hogql),
            Self::Paths(query) => query.run(view, limits, hogql),
        }
    }

    /// Drill-down: the actors that a data point of the result counts.
    pub fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let view = &self.with_sessions(view, limits)?;
        match self {
            Self::Trends(query) => query.actors(view, limits, hogql, point),
            Self::Funnels(query) => query.actors(view, limits, hogql, point),
            Self::Retention(query) => query.actors(view, limits, hogql, point),
            Self::Lifecycle(query) => query.actors(view, limits, hogql, point),
            Self::Stickiness(query) => query.actors(view, limits, hogql, point),
            Self::Paths(query) => query.actors(view, limits, hogql),
        }
    }

    /// Drill-down: the events that a data point of the result counts.
    pub fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let view = &self.with_sessions(view, limits)?;
        match self {
            Self::Trends(query) => query.events(view, limits, hogql, point),
            Self::Funnels(query) => query.events(view, limits, hogql, point),
            Self::Retention(query) => query.events(view, limits, hogql, point),
            Self::Lifecycle(query) => query.events(view, limits, hogql, point),
            Self::Stickiness(query) => query.events(view, limits, hogql, point),
            Self::Paths(query) => query.events(view, limits, hogql),
        }
    }

    /// The view with the session fields that filters reference.
    fn with_sessions(&self, view: &ReadView, limits: &QueryLimits) -> Result<ReadView> {
        let mut needs = self.needs();
        if self.base().filter_test_accounts {
            needs.add_filters(&view.context.test_accounts()?);
        }
        view.context.actions.values().for_each(|action| needs.add_action(&action.events));
        let sessions = scan::sessions::session_facts(view, limits, &needs.sessions)?;
        Ok(ReadView { sessions, ..view.clone() })
    }

    fn base(&self) -> &Base {
        match self {
            Self::Trends(query) => &query.base,
            Self::Funnels(query) => &query.base,
            Self::Retention(query) => &query.base,
            Self::Lifecycle(query) => &query.base,
            Self::Stickiness(query) => &query.base,
            Self::Paths(query) => &query.base,
        }
    }

    fn nodes(&self) -> Vec<&Node> {
        let nodes = match self {
            Self::Trends(query) => query.nodes(),
            Self::Funnels(query) => query.nodes(),
            Self::Retention(query) => query.nodes(),
            Self::Lifecycle(query) => query.nodes(),
            Self::Stickiness(query) => query.nodes(),
            Self::Paths(query) => query.nodes(),
        };
        nodes.into_iter().flat_map(|node| std::iter::once(node).chain(&node.nodes)).collect()
    }

    fn breakdown(&self) -> Option<&BreakdownFilter> {
        match self {
            Self::Trends(query) => query.breakdown(),
            Self::Funnels(query) => query.breakdown(),
            Self::Retention(query) => query.breakdown(),
            Self::Lifecycle(_) | Self::Stickiness(_) | Self::Paths(_) => None,
        }
    }

    /// Ids of the actions that the query references.
    pub fn actions(&self) -> Vec<i64> {
        let nodes = self.nodes().into_iter().filter(|node| node.kind == NodeKind::Actions);
        let ids = nodes.filter_map(|node| scan::context::action_id(node).ok());
        ids.map(|id| id.0).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Ids of the cohorts that the query references.
    pub fn cohorts(&self) -> Vec<i64> {
        self.needs().cohorts.into_iter().map(|id| id.0).collect()
    }

    /// What must be loaded for this query, without the needs of test account filters and of
    /// actions' own filters.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        let nodes = self.nodes();
        collect_filter_needs(&self.base().properties, &mut needs);
        for node in nodes {
            collect_filter_needs(&node.properties, &mut needs);
            collect_filter_needs(&node.fixed_properties, &mut needs);
        }
        if let Some(filter) = self.breakdown() {
            needs.groups |= breakdown::needs_groups(filter);
            needs.cohorts.extend(breakdown::cohorts(filter).into_iter().map(CohortId));
        }
        needs.groups |= self.base().aggregation_group_type_index.is_some();
        if self.uses_hogql() {
            (needs.groups, needs.all_cohorts) = (true, true);
        }
        needs.actions.extend(self.actions().into_iter().map(ActionId));
        needs.earliest = true;
        needs
    }
}

impl Insight {
    /// Whether running the query needs a [`HogqlCompiler`].
    pub fn uses_hogql(&self) -> bool {
        let breakdown = self.breakdown().is_some_and(|filter| {
            let mut kinds = filter.breakdowns.iter().map(|one| &one.kind);
            filter.breakdown_type.as_deref() == Some("hogql")
                || kinds.any(|kind| kind.as_deref() == Some("hogql"))
        });
        let in_kind = match self {
            Self::Funnels(query) => query.uses_hogql(),
            Self::Paths(query) => query.uses_hogql(),
            _ => false,
        };
        breakdown || in_kind || self.nodes().iter().any(|node| node.math == Math::Hogql)
    }
}

/// Collects what property filters reference from their raw JSON. Parsing them would need the
/// project's time zone.
fn collect_filter_needs(filters: &Json, needs: &mut Needs) {
    match filters {
        Json::Array(all) => all.iter().for_each(|one| collect_filter_needs(one, needs)),
        Json::Object(filter) => match filter.get("values") {
            Some(values) => collect_filter_needs(values, needs),
            None => match filter.get("type").and_then(Json::as_str) {
                Some("cohort" | "static-cohort") => match filter.get("value") {
                    Some(Json::Array(one)) => {
                        needs.cohorts.extend(one.iter().filter_map(CohortId::from_json));
                    }
                    value => needs.cohorts.extend(value.and_then(CohortId::from_json)),
                },
                Some("group") => needs.groups = true,
                Some("session") => {
                    let field = filter.get("key").and_then(Json::as_str);
                    needs.sessions.extend(field.map(str::to_owned));
                }
                Some("hogql") => (needs.groups, needs.all_cohorts) = (true, true),
                _ => {}
            },
        },
        _ => {}
    }
}
