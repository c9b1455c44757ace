//! How an insight is shown.

use model::{DashboardId, Insight, Rights, TilePlace, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::dashboards::shape::Effective;

/// An insight, and the answer to it once there is one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Insight")]
pub(crate) struct ShownInsight {
    #[serde(flatten)]
    insight: Insight,
    #[serde(flatten)]
    effective: Effective,
    dashboard_tiles: Vec<TilePlace>,
    #[serde(flatten)]
    answer: InsightAnswer,
    alerts: Vec<Value>,
}

/// Null throughout means that nothing was computed yet.
#[derive(Default, Serialize, JsonSchema)]
struct InsightAnswer {
    result: Option<Value>,
    #[serde(rename = "hasMore")]
    has_more: Option<bool>,
    columns: Option<Vec<Value>>,
    types: Option<Vec<Value>>,
    hogql: Option<String>,
    last_refresh: Option<Timestamp>,
    cache_target_age: Option<Timestamp>,
    next_allowed_client_refresh: Option<Timestamp>,
    timezone: Option<String>,
    is_cached: bool,
    query_status: Option<Value>,
}

impl ShownInsight {
    pub(crate) fn new(insight: Insight, rights: Rights) -> Self {
        let place = |place: &model::Place| TilePlace {
            id: place.tile,
            dashboard_id: place.dashboard,
            deleted: false,
        };
        Self {
            dashboard_tiles: insight.places.iter().map(place).collect(),
            effective: rights.into(),
            answer: InsightAnswer::default(),
            alerts: Vec::new(),
            insight,
        }
    }

    /// What people call it.
    pub(crate) fn title(&self) -> Option<&str> {
        let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
        let Insight { name, derived_name, .. } = &self.insight;
        if named(name) { name.as_deref() } else { derived_name.as_deref() }
    }

    pub(crate) fn description(&self) -> Option<&str> {
        self.insight.description.as_deref()
    }
}

/// Takes away who made it and every dashboard but one.
pub(crate) fn anonymise(insight: &mut Insight, on: Option<DashboardId>) {
    (insight.created_by, insight.last_modified_by, insight.last_viewed_at) = (None, None, None);
    insight.places.retain(|place| Some(place.dashboard) == on);
    insight.dashboards.retain(|id| Some(*id) == on);
}
