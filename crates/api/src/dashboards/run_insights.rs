//! All insights of a dashboard with their results, in one compact response.

use model::DashboardId;
use query::Refresh;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::response::{DashboardResponse, TileResponse};
use crate::auth::resources::Dashboards;
use crate::http::path::given;
use crate::insights::overrides::Overrides;
use crate::insights::results::{QueryFailure, refresh, text_table};
use crate::{App, Error, Id, Json, Query, Reader, Result, Routes};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("/api/projects/{project_id}/dashboards/{id}/run_insights", run_insights)
}

#[derive(Deserialize, JsonSchema)]
struct RunQuery {
    /// The refresh mode of the results; `blocking`, if not given.
    refresh: Option<String>,
    /// `optimized` (default): each result as a text table; `json`: as queries return it.
    output_format: Option<String>,
    filters_override: Option<String>,
    variables_override: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RunInsights {
    results: Vec<RunTile>,
}

#[derive(Serialize, JsonSchema)]
struct RunTile {
    id: model::TileId,
    order: usize,
    insight: RunInsight,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<QueryFailure>,
}

#[derive(Serialize, JsonSchema)]
struct RunInsight {
    id: model::InsightId,
    short_id: String,
    name: Option<String>,
    derived_name: Option<String>,
    /// A text table, or what the query returns; null if it is not computed.
    #[schemars(with = "Option<RunResult>")]
    result: Option<Value>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "describes the response")]
enum RunResult {
    Table(String),
    Results(query::schema::QueryResults),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputFormat {
    Optimized,
    Json,
}

async fn run_insights(
    caller: Reader<Dashboards>,
    id: Id,
    query: Query<RunQuery>,
    app: App,
) -> Result<Json<RunInsights>> {
    let (user, id) = (Some(caller.user.user.id), DashboardId(id.0));
    let dashboard =
        app.catalog.dashboards().get_visible(caller.project.id, id, caller.viewer()).await?;
    let overrides =
        Overrides::read(query.filters_override.as_ref(), query.variables_override.as_ref())?;
    let refresh = match given(query.refresh.as_ref()) {
        None => Refresh::Blocking,
        word => refresh(word)?,
    };
    let format = match given(query.output_format.as_ref()) {
        None | Some("optimized") => OutputFormat::Optimized,
        Some("json") => OutputFormat::Json,
        Some(other) => return Err(Error::invalid_choice("output_format", other)),
    };
    let visibilities = caller.visibilities();
    let view = app.catalog.dashboards().view(dashboard, user, &visibilities).await?;
    let mut shown = DashboardResponse::new(view, caller.viewer(), "sm").overridden(overrides);
    shown.load_results(&app, &caller.project, refresh, visibilities).await;
    let results = shown.tiles().iter().filter_map(|tile| run_tile(tile, format)).enumerate();
    let results = results.map(|(order, tile)| RunTile { order, ..tile });
    Ok(Json(RunInsights { results: results.collect() }))
}

/// None for texts and links.
fn run_tile(tile: &TileResponse, format: OutputFormat) -> Option<RunTile> {
    let response = tile.insight()?;
    let (insight, answer) = (response.insight(), response.result());
    let result = match format {
        OutputFormat::Json => answer.result.clone(),
        OutputFormat::Optimized => text_table(answer).map(Value::String),
    };
    Some(RunTile {
        id: tile.id(),
        order: 0,
        insight: RunInsight {
            id: insight.id,
            short_id: insight.short_id.clone(),
            name: insight.name.clone(),
            derived_name: insight.derived_name.clone(),
            result,
        },
        error: answer.failure.clone(),
    })
}
