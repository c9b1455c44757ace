//! The legacy query endpoints: `/insights/trend`, `funnel`, `retention` and `path`.

use query::{LegacyInsightKind, QueryRequest, QueryResponse, Refresh, convert_legacy_filters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Insights;
use super::results::refresh;
use crate::{App, Body, Error, Json, Reader, RequestUrl, Result, Routes};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/insights/trend", trend)
        .post("/api/projects/{project_id}/insights/trend", post_trend)
        .get("/api/projects/{project_id}/insights/funnel", funnel)
        .post("/api/projects/{project_id}/insights/funnel", post_funnel)
        .get("/api/projects/{project_id}/insights/retention", retention)
        .post("/api/projects/{project_id}/insights/retention", post_retention)
        .get("/api/projects/{project_id}/insights/path", path)
        .post("/api/projects/{project_id}/insights/path", post_path)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OldAnswer")]
struct LegacyResult {
    #[schemars(with = "query::schema::QueryResults")]
    result: Value,
    timezone: String,
    last_refresh: model::Timestamp,
    is_cached: bool,
    #[serde(rename = "type")]
    kind: &'static str,
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
struct LegacyBody(#[schemars(with = "query::schema::LegacyFilters")] Map<String, Value>);

macro_rules! get_and_post {
    ($($get:ident, $post:ident, $kind:ident;)+) => {$(
        async fn $get(caller: Reader<Insights>, url: RequestUrl, app: App) -> Result<Json<LegacyResult>> {
            run(&caller, &app, &parameters(&url), LegacyInsightKind::$kind).await
        }

        async fn $post(
            caller: Reader<Insights>,
            app: App,
            body: Body<LegacyBody>,
        ) -> Result<Json<LegacyResult>> {
            run(&caller, &app, &body.read()?.0, LegacyInsightKind::$kind).await
        }
    )+};
}
get_and_post! {
    trend, post_trend, Trend;
    funnel, post_funnel, Funnel;
    retention, post_retention, Retention;
    path, post_path, Paths;
}

/// Filters of a query string; values that start like JSON are parsed as JSON.
fn parameters(url: &RequestUrl) -> Map<String, Value> {
    let value = |text: &str| match text.as_bytes().first() {
        Some(b'[' | b'{' | b'0'..=b'9') | None => {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
        Some(_) if text == "true" || text == "false" => (text == "true").into(),
        Some(_) => text.into(),
    };
    url.prefixed("").map(|(name, text)| (name.to_owned(), value(text))).collect()
}

/// The refresh mode, made blocking: these endpoints always return a result.
fn blocking_refresh(word: &str) -> Result<Refresh> {
    Ok(match refresh(Some(word))? {
        Refresh::ForceBlocking | Refresh::ForceAsync => Refresh::ForceBlocking,
        _ => Refresh::Blocking,
    })
}

async fn run(
    caller: &Reader<Insights>,
    app: &App,
    filters: &Map<String, Value>,
    kind: LegacyInsightKind,
) -> Result<Json<LegacyResult>> {
    let query = convert_legacy_filters(filters, Some(kind))
        .map_err(|why| match why.attr.is_empty() {
            true => Error::bad_request(why.detail),
            false => why.into(),
        })?
        .ok_or_else(|| Error::bad_request("The request has no filters."))?;
    let refresh = match filters.get("refresh") {
        None | Some(Value::Null) => Refresh::Blocking,
        Some(Value::Bool(anew)) => blocking_refresh(&anew.to_string())?,
        Some(Value::String(word)) => blocking_refresh(word)?,
        Some(other) => return Err(Error::invalid_choice("refresh", &other.to_string())),
    };
    let reply = app
        .queries
        .run(&caller.project, QueryRequest::new(query, refresh, caller.visibilities()))
        .await?;
    let QueryResponse::Ready { result, is_cached, .. } = reply else {
        return Err(Error::bad_request("The query has no result."));
    };
    Ok(Json(LegacyResult {
        result: result.results.clone(),
        timezone: result.timezone.clone(),
        last_refresh: result.computed_at,
        is_cached,
        kind: match kind {
            LegacyInsightKind::Trend => "Trend",
            LegacyInsightKind::Funnel => "Funnel",
            LegacyInsightKind::Retention => "Retention",
            LegacyInsightKind::Paths => "Paths",
        },
        next: None,
    }))
}
