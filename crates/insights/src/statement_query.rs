//! Queries that one HogQL statement computes: they have no operators of their own.

use facts::{Needs, QueryContext};
use hogql::ast::Query;
use model::ActionId;
use serde_json::{Map, Value as Json};

use crate::Result;
use crate::funnels::CorrelationQuery;
use crate::query::spec::Overrides;
use crate::timeline::TimelineQuery;
use crate::web_analytics::WebQuery;

#[derive(Clone, Debug)]
pub enum StatementQuery {
    Web(Box<WebQuery>),
    Correlation(Box<CorrelationQuery>),
    Timeline(TimelineQuery),
}

/// A result, with the keys that stand beside `results`.
#[derive(Clone, Debug)]
pub struct StatementResult {
    pub results: Json,
    pub has_more: Option<bool>,
    /// Names of columns and their ClickHouse types.
    pub columns: Option<Vec<(String, &'static str)>>,
    pub more: Map<String, Json>,
    /// First and last instant of the resolved date range, in ISO 8601.
    pub resolved: Option<(String, String)>,
}

impl StatementResult {
    pub(crate) fn new(results: Json) -> Self {
        Self { results, has_more: None, columns: None, more: Map::new(), resolved: None }
    }
}

impl StatementQuery {
    /// None if `kind` is none of these.
    pub fn parse(kind: &str, json: &Json) -> Option<Result<Self>> {
        Some(match kind {
            "FunnelCorrelationQuery" => {
                CorrelationQuery::parse(json).map(|query| Self::Correlation(Box::new(query)))
            }
            "SessionsTimelineQuery" => TimelineQuery::parse(json).map(Self::Timeline),
            _ => WebQuery::parse(kind, json)?.map(|query| Self::Web(Box::new(query))),
        })
    }

    /// Applies the filter overrides of a dashboard or a request.
    pub fn apply_filters(&mut self, dashboard: &Overrides) {
        match self {
            Self::Web(query) => query.apply_filters(dashboard),
            Self::Correlation(query) => query.apply_filters(dashboard),
            // It has no filters.
            Self::Timeline(_) => {}
        }
    }

    /// Whether it reports on the project's actions, which the caller then names.
    pub fn wants_actions(&self) -> bool {
        matches!(self, Self::Web(query) if query.wants_actions())
    }

    /// Sets the actions that a goals query reports on.
    pub fn set_actions(&mut self, actions: Vec<ActionId>) {
        if let Self::Web(query) = self {
            query.set_actions(actions);
        }
    }

    pub fn set_default_limit(&mut self, rows: u64) {
        if let Self::Web(query) = self {
            query.set_default_limit(rows);
        }
    }

    /// Ids of the actions that the query references.
    pub fn actions(&self) -> Vec<ActionId> {
        match self {
            Self::Web(query) => query.actions(),
            Self::Correlation(query) => query.actions(),
            Self::Timeline(_) => Vec::new(),
        }
    }

    /// What must be loaded.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Web(query) => query.needs(),
            Self::Correlation(query) => query.needs(),
            Self::Timeline(_) => Needs::default(),
        }
    }

    /// The statement that computes the result.
    pub fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        match self {
            Self::Web(query) => query.to_hogql(context),
            Self::Correlation(query) => query.to_hogql(context),
            Self::Timeline(query) => query.to_hogql(context),
        }
    }

    /// The result, from the rows of [`Self::to_hogql`] in the same context.
    pub fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: Vec<Vec<Json>>,
    ) -> Result<StatementResult> {
        match self {
            Self::Web(query) => query.result_of_rows(context, rows),
            Self::Correlation(query) => query.result_of_rows(context, &rows),
            Self::Timeline(_) => crate::timeline::result_of_rows(rows),
        }
    }
}
