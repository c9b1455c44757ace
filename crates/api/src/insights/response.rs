//! Responses for insights.

use model::{DashboardId, Insight, Rights, TileRef, Viewer};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::results::InsightResult;
use crate::auth::access::EffectiveAccess;

/// An insight with its result.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Insight")]
pub(crate) struct InsightResponse {
    #[serde(flatten)]
    insight: Insight,
    #[serde(flatten)]
    effective: EffectiveAccess,
    dashboard_tiles: Vec<TileRef>,
    #[serde(flatten)]
    result: InsightResult,
    #[schemars(with = "Vec<String>")]
    alerts: Vec<Value>,
    /// The reader is anonymous.
    #[serde(skip)]
    is_public: bool,
}

impl InsightResponse {
    /// As a member sees it: with the dashboards that they may view.
    pub(crate) fn to(viewer: Viewer<'_>, mut insight: Insight) -> Self {
        let rights = insight.rights(viewer);
        insight.tiles.retain(|place| place.policy.rights(viewer).can_view());
        insight.dashboards = insight.tiles.iter().map(|place| place.dashboard).collect();
        Self::new(insight, rights)
    }

    /// As a shared link shows it; `anonymize` first.
    pub(crate) fn public(insight: Insight) -> Self {
        Self { is_public: true, ..Self::new(insight, Rights::PUBLIC) }
    }

    fn new(insight: Insight, rights: Rights) -> Self {
        let place = |place: &model::InsightTile| TileRef {
            id: place.tile,
            dashboard_id: place.dashboard,
            deleted: false,
        };
        Self {
            dashboard_tiles: insight.tiles.iter().map(place).collect(),
            effective: rights.into(),
            result: InsightResult::default(),
            alerts: Vec::new(),
            is_public: false,
            insight,
        }
    }

    /// The statement of an insight contains filters of the project and of actions, which a shared link
    /// does not show.
    pub(crate) fn set_result(&mut self, result: InsightResult) {
        self.result = if self.is_public { result.without_lowered_hogql() } else { result };
    }

    pub(crate) fn result(&self) -> &InsightResult {
        &self.result
    }

    pub(crate) fn insight(&self) -> &Insight {
        &self.insight
    }

    /// The name, or else the derived name.
    pub(crate) fn title(&self) -> Option<&str> {
        let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
        let Insight { name, derived_name, .. } = &self.insight;
        if named(name) { name.as_deref() } else { derived_name.as_deref() }
    }

    pub(crate) fn description(&self) -> Option<&str> {
        self.insight.description.as_deref()
    }
}

/// Removes users and all dashboards except `on`.
pub(crate) fn anonymize(insight: &mut Insight, on: Option<DashboardId>) {
    (insight.created_by, insight.last_modified_by, insight.last_viewed_at) = (None, None, None);
    insight.tiles.retain(|place| Some(place.dashboard) == on);
    insight.dashboards.retain(|id| Some(*id) == on);
}
