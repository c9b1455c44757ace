//! Insights: trends, funnels, retention, lifecycle, stickiness and paths, computed from a project's
//! facts.
//!
//! It stands on the read path between `query`, which says what is asked, and the warehouse's
//! columns. An answer is a pure function of the question and a [`facts::ReadView`]: no HTTP, no
//! catalog, nothing to wait for. Counts of people are exact.
//!
//! - `spec`: questions as they are sent, read strictly; `inert`: the keys that change nothing.
//! - `calendar`, `range`: dates, in the project's zone, become moments and buckets.
//! - `question`: which events a node means; `scan`: one pass over them, by threads that each fill a
//!   state of their own; `breakdown`: numbers for values.
//! - `expression`, `hogql`: values that are written as expressions.
//! - `sessions`: what is known of them; `tally`, `firsts`, `aggregate`: what is counted.
//! - one module for each kind, and `deeds` for what cohorts ask people to have done.
//! - `check`: whether a question can be kept.

mod actors;
mod aggregate;
mod behavioral;
mod bins;
mod breakdown;
mod calendar;
mod check;
mod context;
mod error;
mod expression;
mod firsts;
mod formula;
mod funnels;
mod hogql;
mod journeys;
mod lifecycle;
mod limits;
mod masks;
mod noop_keys;
mod paths;
mod range;
mod result;
mod retention;
mod scan;
mod sessions;
mod spec;
mod stickiness;
mod tally;
mod trends;

pub use actors::{Actor, DataPoint, InsightActors};
pub use behavioral::{behavioral_needs, matching_persons};
pub use calendar::Interval;
pub use check::check_filter;
pub use error::{Error, Result};
pub use funnels::FunnelsQuery;
pub use hogql::HogqlCompiler;
pub use lifecycle::LifecycleQuery;
pub use limits::{AdmissionControl, QueryLimits};
pub use noop_keys::strip_noop_keys;
pub use paths::PathsQuery;
pub use result::InsightResult;
pub use retention::RetentionQuery;
pub use spec::Overrides;
pub use stickiness::StickinessQuery;
pub use trends::TrendsQuery;

use std::collections::BTreeSet;

use facts::{Needs, ReadView};
use model::{ActionId, CohortId};
use serde_json::Value as Json;

use spec::{Base, BreakdownFilter, Node, NodeKind};

/// A question of one of the kinds.
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
    /// None when `kind` is no insight.
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

    /// What a dashboard, or a request, puts on top.
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

    /// The project's `path_cleaning_filters`, a list of `{alias, regex}`, which paths may ask for.
    pub fn set_path_cleaning(&mut self, rules: &Json) {
        if let Self::Paths(query) = self {
            query.set_cleaning(rules);
        }
    }

    /// Refuses what needs HogQL, except expressions that name a column.
    pub fn run(&self, view: &ReadView, limits: &QueryLimits) -> Result<InsightResult> {
        self.run_with(view, limits, None)
    }

    /// `hogql` reads expressions in maths, breakdowns and paths; those in filters are read by
    /// [`ReadView::expressions`].
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

    /// Who is behind a number of the answer.
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

    /// The view with what filters ask of sessions.
    fn with_sessions(&self, view: &ReadView, limits: &QueryLimits) -> Result<ReadView> {
        let mut needs = self.needs();
        if self.base().filter_test_accounts {
            view.test_accounts()?.needs(&mut needs);
        }
        view.actions.values().for_each(|action| action.matcher.needs(&mut needs));
        let sessions = sessions::facts(view, limits, &needs.sessions)?;
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
        let own = match self {
            Self::Trends(query) => query.nodes(),
            Self::Funnels(query) => query.nodes(),
            Self::Retention(query) => query.nodes(),
            Self::Lifecycle(query) => query.nodes(),
            Self::Stickiness(query) => query.nodes(),
            Self::Paths(query) => query.nodes(),
        };
        own.into_iter().flat_map(|node| std::iter::once(node).chain(&node.nodes)).collect()
    }

    fn breakdown(&self) -> Option<&BreakdownFilter> {
        match self {
            Self::Trends(query) => query.breakdown(),
            Self::Funnels(query) => query.breakdown(),
            Self::Retention(query) => query.breakdown(),
            Self::Lifecycle(_) | Self::Stickiness(_) | Self::Paths(_) => None,
        }
    }

    /// Ids of the actions it names.
    pub fn actions(&self) -> Vec<i64> {
        let nodes = self.nodes().into_iter().filter(|node| node.kind == NodeKind::Actions);
        let ids = nodes.filter_map(|node| context::action_id(node).ok());
        ids.map(|id| id.0).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Ids of the cohorts it names.
    pub fn cohorts(&self) -> Vec<i64> {
        self.needs().cohorts.into_iter().map(|id| id.0).collect()
    }

    /// What a view must hold to answer it. Filters for test accounts and actions have needs of
    /// their own.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        let nodes = self.nodes();
        walk(&self.base().properties, &mut needs);
        for node in nodes {
            walk(&node.properties, &mut needs);
            walk(&node.fixed_properties, &mut needs);
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
        needs
    }
}

impl Insight {
    /// Whether running it needs somebody who reads expressions.
    pub fn uses_hogql(&self) -> bool {
        let breakdown = self.breakdown().is_some_and(|filter| {
            let mut kinds = filter.breakdowns.iter().map(|one| &one.kind);
            filter.breakdown_type.as_deref() == Some("hogql")
                || kinds.any(|kind| kind.as_deref() == Some("hogql"))
        });
        let own = match self {
            Self::Funnels(query) => query.uses_hogql(),
            Self::Paths(query) => query.uses_hogql(),
            _ => false,
        };
        breakdown || own || self.nodes().iter().any(|node| node.math == spec::Math::Hogql)
    }
}

/// Finds what filters name, without reading them as filters: that needs a zone.
fn walk(filters: &Json, needs: &mut Needs) {
    match filters {
        Json::Array(all) => all.iter().for_each(|one| walk(one, needs)),
        Json::Object(filter) => match filter.get("values") {
            Some(values) => walk(values, needs),
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
