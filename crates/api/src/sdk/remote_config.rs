//! Remote config of SDKs, and the lists that they poll, which are always empty.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use capture::Rejection;
use catalog::ProjectRow;
use futures_util::stream;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::path::query_parameter;
use crate::http::public_error::{PublicError, PublicErrorBody};
use crate::sdk::static_files::{JAVASCRIPT, sdk};
use crate::sdk::tokens::Owner;
use crate::{App, AppState, Json, Routes};

/// Long enough for one visit, short enough to try out a setting.
const CACHE_ONE_MINUTE: HeaderValue = HeaderValue::from_static("public, max-age=60");

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/array/{token}/config", config)
        .get("/array/{token}/config.js", config_script)
        .get("/array/{token}/array.js", sdk_with_config)
        .get("/api/surveys", surveys)
        .get("/api/early_access_features", early_access_features)
        .get("/api/web_experiments", web_experiments)
        .get("/api/product_tours", product_tours)
        .unsupported("/api/conversations/v1/widget/{*rest}")
}

/// The members that the browser SDK reads. Others, above all `surveys`, would make it fetch more
/// scripts, whatever their value.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteConfig<'a> {
    token: &'a str,
    /// Without `gzip-js` the SDK sends JSON, which takes a CORS preflight for each path.
    supported_compression: [&'static str; 2],
    has_feature_flags: bool,
    capture_dead_clicks: bool,
    capture_performance: CapturePerformance,
    /// If absent, the SDK does not capture new visitors.
    #[serde(rename = "autocapture_opt_out")]
    autocapture_opt_out: bool,
    autocapture_exceptions: bool,
    analytics: Analytics,
    elements_chain_as_string: bool,
    session_recording: bool,
    heatmaps: bool,
    default_identified_only: bool,
    site_apps: [(); 0],
}

#[derive(Serialize, JsonSchema)]
struct Analytics {
    endpoint: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum CapturePerformance {
    Off(bool),
    /// Network timing is for recordings, which are not supported.
    On {
        network_timing: bool,
        web_vitals: bool,
    },
}

impl<'a> RemoteConfig<'a> {
    pub(crate) async fn of(app: &AppState, project: &'a ProjectRow) -> Self {
        // With false an SDK never requests flags, so assume true if they cannot be loaded.
        let flags = app.flags.of(project).await;
        let has_feature_flags = flags.map_or(true, |flags| flags.set.has_active());
        let settings = &project.settings;
        Self {
            token: &project.api_token,
            supported_compression: ["gzip", "gzip-js"],
            has_feature_flags,
            capture_dead_clicks: false,
            capture_performance: match settings.autocapture_web_vitals_opt_in() {
                true => CapturePerformance::On { network_timing: false, web_vitals: true },
                false => CapturePerformance::Off(false),
            },
            autocapture_opt_out: settings.autocapture_opt_out(),
            autocapture_exceptions: settings.autocapture_exceptions_opt_in(),
            analytics: Analytics { endpoint: "/i/v0/e/" },
            elements_chain_as_string: true,
            session_recording: false,
            heatmaps: settings.heatmaps_opt_in(),
            default_identified_only: true,
            site_apps: [],
        }
    }

    /// A script that stores the config in the global that the SDK reads.
    fn script(&self) -> String {
        let token = in_script(&json!(self.token));
        let config = in_script(&json!(self));
        format!(
            "(function () {{\n\
             var all = (window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {{}});\n\
             all[{token}] = {{ config: {config}, siteApps: [] }};\n\
             }})();\n"
        )
    }
}

/// Escapes JSON for a script, also one inline in HTML.
fn in_script(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

async fn config(project: ByPath, app: App) -> ConfigJson {
    ConfigJson(json!(RemoteConfig::of(&app, &project.0).await))
}

async fn config_script(project: ByPath, app: App) -> JavaScript {
    JavaScript { config: RemoteConfig::of(&app, &project.0).await.script(), sdk: b"" }
}

async fn sdk_with_config(project: ByPath, app: App) -> Result<JavaScript, PublicError> {
    let sdk = sdk()?;
    Ok(JavaScript { config: RemoteConfig::of(&app, &project.0).await.script(), sdk })
}

#[derive(Serialize, JsonSchema)]
struct Surveys {
    surveys: [(); 0],
    survey_config: Option<()>,
}

async fn surveys(_: ByQuery) -> Json<Surveys> {
    Json(Surveys { surveys: [], survey_config: None })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EarlyAccessFeatures {
    early_access_features: [(); 0],
}

async fn early_access_features(_: ByQuery) -> Json<EarlyAccessFeatures> {
    Json(EarlyAccessFeatures { early_access_features: [] })
}

#[derive(Serialize, JsonSchema)]
struct WebExperiments {
    experiments: [(); 0],
}

async fn web_experiments(_: ByQuery) -> Json<WebExperiments> {
    Json(WebExperiments { experiments: [] })
}

#[derive(Serialize, JsonSchema)]
struct ProductTours {
    product_tours: [(); 0],
}

async fn product_tours(_: ByQuery) -> Json<ProductTours> {
    Json(ProductTours { product_tours: [] })
}

/// The project of the path's `{token}`; 404 for an unknown one.
struct ByPath(Arc<ProjectRow>);

impl FromRequestParts<AppState> for ByPath {
    type Rejection = PublicError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, PublicError> {
        let missing = || PublicError::not_found("There is no project with this token.");
        let parameters =
            RawPathParams::from_request_parts(parts, app).await.map_err(|_| missing())?;
        let token = parameters.iter().find(|(name, _)| *name == "token");
        match app.tokens.owner(token.map_or("", |(_, token)| token)).await {
            Owner::Known(project) => Ok(Self(project)),
            Owner::Unknown => Err(missing()),
            Owner::Unavailable => Err(Rejection::LookupUnavailable.into()),
        }
    }
}

impl DescribeRequest for ByPath {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response_default::<PublicErrorBody>(schemas);
    }
}

/// Requires a valid `?token=`.
struct ByQuery;

impl FromRequestParts<AppState> for ByQuery {
    type Rejection = PublicError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, PublicError> {
        let token = query_parameter(parts, "token").unwrap_or_default();
        match app.tokens.owner(token.trim()).await {
            Owner::Known(_) => Ok(Self),
            Owner::Unknown => Err(PublicError::invalid_token()),
            Owner::Unavailable => Err(Rejection::LookupUnavailable.into()),
        }
    }
}

impl DescribeRequest for ByQuery {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.query_parameter("token", json!({ "type": "string" }));
        operation.response_default::<PublicErrorBody>(schemas);
    }
}

struct ConfigJson(Value);

impl IntoResponse for ConfigJson {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, CACHE_ONE_MINUTE)], axum::Json(self.0)).into_response()
    }
}

impl DescribeResponse for ConfigJson {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<RemoteConfig<'_>>(200, schemas);
    }
}

/// A project's config script, followed by the SDK, whose bytes all responses share.
struct JavaScript {
    config: String,
    sdk: &'static [u8],
}

impl IntoResponse for JavaScript {
    fn into_response(self) -> Response {
        let bytes = self.config.len() + self.sdk.len();
        let parts = [Bytes::from(self.config), Bytes::from_static(self.sdk)];
        let parts = parts.into_iter().filter(|part| !part.is_empty()).map(Ok::<_, Infallible>);
        let headers = [
            (header::CONTENT_TYPE, JAVASCRIPT),
            (header::CACHE_CONTROL, CACHE_ONE_MINUTE),
            (header::CONTENT_LENGTH, HeaderValue::from(bytes)),
        ];
        (headers, Body::from_stream(stream::iter(parts))).into_response()
    }
}

impl DescribeResponse for JavaScript {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "application/javascript");
    }
}
