//! Responses for dashboards and their tiles.

use catalog::{DashboardView, ProjectRow};
use model::{
    Button, ButtonId, DashboardHead, DashboardId, Insight, Note, ObjectKind, Restriction, Rights,
    Tile, TileContent, TileId, TilePresentation, Timestamp, Viewer, Visibilities,
};
use query::Refresh;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::AppState;
use crate::auth::access::EffectiveAccess;
use crate::insights::overrides::Overrides;
use crate::insights::response::InsightResponse;
use crate::insights::results::{QueryFailure, RunOptions, run_all};

/// A dashboard in a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DashboardBasic")]
pub(crate) struct DashboardItem {
    #[serde(flatten)]
    head: DashboardHead,
    #[serde(flatten)]
    effective: EffectiveAccess,
    access_control_version: &'static str,
}

impl DashboardItem {
    pub(super) fn new(head: DashboardHead, viewer: Viewer) -> Self {
        let rights = head.policy().rights(viewer);
        Self::with(head, rights)
    }

    fn with(head: DashboardHead, rights: Rights) -> Self {
        let access_control_version = match head.restriction_level {
            Restriction::Everyone => "v2",
            Restriction::Collaborators => "v1",
        };
        Self { head, effective: rights.into(), access_control_version }
    }
}

/// A dashboard with its tiles.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Dashboard")]
pub(crate) struct DashboardResponse {
    #[serde(flatten)]
    listed: DashboardItem,
    #[schemars(with = "query::schema::FilterOverrides")]
    filters: Map<String, Value>,
    #[schemars(with = "Option<query::schema::Variables>")]
    variables: Option<Map<String, Value>>,
    /// The stored filters, even where the request overrides them.
    #[schemars(with = "Option<query::schema::FilterOverrides>")]
    persisted_filters: Option<Map<String, Value>>,
    #[schemars(with = "Option<query::schema::Variables>")]
    persisted_variables: Option<Map<String, Value>>,
    breakdown_colors: Vec<Value>,
    data_color_theme_id: Option<i64>,
    quick_filter_ids: Vec<Value>,
    tiles: Vec<TileResponse>,
    /// Write-only fields, which clients expect to read back empty.
    use_template: &'static str,
    use_dashboard: Option<DashboardId>,
    delete_insights: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tile")]
pub(crate) struct TileResponse {
    id: TileId,
    #[serde(flatten)]
    presentation: TilePresentation,
    insight: Option<InsightResponse>,
    text: Option<Note>,
    button_tile: Option<ButtonTileResponse>,
    order: usize,
    last_refresh: Option<Timestamp>,
    is_cached: bool,
    /// Why the insight has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<QueryFailure>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ButtonTile")]
pub(crate) struct ButtonTileResponse {
    id: ButtonId,
    #[serde(flatten)]
    button: Button,
}

impl DashboardResponse {
    /// `size` is the screen size whose layout orders the tiles.
    pub(super) fn new(view: DashboardView, viewer: Viewer, size: &str) -> Self {
        let rights = view.dashboard.head.policy().rights(viewer);
        let shown = |insight: Insight| {
            let is_seen = insight.rights(viewer).can_view();
            is_seen.then(|| InsightResponse::to(viewer, insight))
        };
        Self::with(view, rights, shown, size)
    }

    /// As a shared link shows it: without authors and without references to other dashboards.
    pub(crate) fn public(mut view: DashboardView) -> Self {
        let id = view.dashboard.head.id;
        view.dashboard.head.created_by = None;
        for tile in &mut view.tiles {
            if let TileContent::Note(note) = &mut tile.content {
                (note.created_by, note.last_modified_by) = (None, None);
                note.dashboard_tiles.retain(|tile| tile.dashboard_id == id);
            }
        }
        for insight in view.insights.values_mut() {
            crate::insights::response::anonymize(insight, Some(id));
        }
        Self::with(view, Rights::PUBLIC, |insight| Some(InsightResponse::public(insight)), "sm")
    }

    fn with(
        view: DashboardView,
        rights: Rights,
        of_insight: impl Fn(Insight) -> Option<InsightResponse>,
        size: &str,
    ) -> Self {
        let DashboardView { dashboard, mut tiles, mut insights } = view;
        tiles.sort_by(|one, other| {
            let ((y, x), (other_y, other_x)) =
                (one.presentation.position(size), other.presentation.position(size));
            y.total_cmp(&other_y).then(x.total_cmp(&other_x)).then(one.id.cmp(&other.id))
        });
        let mut shown = Vec::with_capacity(tiles.len());
        for Tile { id, presentation, content } in tiles {
            let (insight, text, button_tile) = match content {
                TileContent::Insight(id) => {
                    // Hidden from the viewer, or deleted after the tiles were read.
                    let Some(insight) = insights.remove(&id).and_then(&of_insight) else {
                        continue;
                    };
                    (Some(insight), None, None)
                }
                TileContent::Note(note) => (None, Some(*note), None),
                TileContent::Button(id, button) => {
                    (None, None, Some(ButtonTileResponse { id, button }))
                }
            };
            let order = shown.len();
            shown.push(TileResponse {
                id,
                presentation,
                insight,
                text,
                button_tile,
                order,
                last_refresh: None,
                is_cached: false,
                error: None,
            });
        }
        let presentation = dashboard.presentation;
        let stored = |map: &Map<String, Value>| (!map.is_empty()).then(|| map.clone());
        Self {
            listed: DashboardItem::with(dashboard.head, rights),
            persisted_filters: stored(&presentation.filters),
            persisted_variables: presentation.variables.as_ref().and_then(stored),
            filters: presentation.filters,
            variables: presentation.variables,
            breakdown_colors: presentation.breakdown_colors,
            data_color_theme_id: presentation.data_color_theme_id,
            quick_filter_ids: presentation.quick_filter_ids,
            tiles: shown,
            use_template: "",
            use_dashboard: None,
            delete_insights: false,
        }
    }

    pub(super) fn overridden(mut self, overrides: Overrides) -> Self {
        self.filters = overrides.filters.unwrap_or(self.filters);
        self.variables = overrides.variables.or(self.variables);
        self
    }

    /// Runs the tiles' queries, with the dashboard's filters and then the tile's own on top.
    pub(crate) async fn load_results(
        &mut self,
        app: &AppState,
        project: &ProjectRow,
        refresh: Refresh,
        visibilities: Visibilities,
    ) {
        let (filters, variables) = (self.filters.clone(), self.variables.clone());
        let dashboard = self.listed.head.id.0;
        let runs = self.tiles.iter_mut().filter_map(|tile| {
            let tile_filters = Some(&tile.presentation.filters_overrides);
            let options = RunOptions::on_tile(
                refresh,
                &filters,
                variables.as_ref(),
                tile_filters,
                visibilities.clone(),
            );
            Some((tile.insight.as_mut()?, options.belonging_to(ObjectKind::Dashboard, dashboard)))
        });
        let runs = runs.collect();
        run_all(app, project, runs).await;
        for tile in &mut self.tiles {
            if let Some(insight) = &tile.insight {
                let result = insight.result();
                (tile.last_refresh, tile.is_cached) = (result.last_refresh, result.is_cached);
                tile.error = result.failure.clone();
            }
        }
        self.listed.head.last_refresh =
            self.tiles.iter().filter_map(|tile| tile.last_refresh).max();
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.listed.head.name.as_deref()
    }

    pub(crate) fn description(&self) -> &str {
        &self.listed.head.description
    }

    pub(crate) fn tiles(&self) -> &[TileResponse] {
        &self.tiles
    }
}

/// A tile's content, as a shared page prints it.
pub(crate) enum PrintableTile<'a> {
    Insight(&'a InsightResponse),
    Note(&'a str),
    Button(&'a Button),
}

impl TileResponse {
    pub(crate) const fn id(&self) -> TileId {
        self.id
    }

    pub(super) fn insight(&self) -> Option<&InsightResponse> {
        self.insight.as_ref()
    }

    pub(crate) fn printable(&self) -> Option<PrintableTile<'_>> {
        let insight = self.insight.as_ref().map(PrintableTile::Insight);
        let note = || self.text.as_ref().map(|note| PrintableTile::Note(&note.body));
        let button = || self.button_tile.as_ref().map(|shown| PrintableTile::Button(&shown.button));
        insight.or_else(note).or_else(button)
    }
}
