//! The router: all routes and the layers around them.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::SchemaGenerator;
use serde_json::Value;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

use crate::http::compress;
use crate::http::cors;
use crate::http::normalize;
use crate::http::observe;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::http::response_budget::SharedBytes;
use crate::routes::Served;
use crate::{App, AppState, Json, Result, Routes, management, web};

/// Routes of the management API. The order determines operation ids and schema names in the
/// OpenAPI document, where they would collide.
const RESOURCES: &[fn(Routes) -> Routes] = &[
    crate::access_controls::routes,
    crate::data_management::actions::routes,
    crate::activity::routes,
    crate::data_management::annotations::routes,
    crate::cohorts::routes,
    crate::dashboards::collaborators::routes,
    crate::dashboards::routes,
    crate::ingestion::dead_letters::routes,
    crate::demo::routes,
    crate::data_management::event_definitions::routes,
    crate::events::routes,
    crate::feature_flags::routes,
    crate::groups::routes,
    crate::insights::routes,
    crate::instance::routes,
    crate::accounts::keys::routes,
    crate::mcp_tools::routes,
    crate::accounts::members::routes,
    crate::ops::routes,
    crate::accounts::organizations::routes,
    crate::persons::routes,
    crate::accounts::projects::routes,
    crate::data_management::property_definitions::routes,
    crate::queries::routes,
    crate::accounts::roles::routes,
    crate::search::routes,
    crate::accounts::session::routes,
    crate::accounts::setup::routes,
    crate::sharing::shared_pages::routes,
    crate::sharing::routes,
    crate::accounts::users::routes,
    crate::ingestion::warnings::routes,
    crate::web::routes,
];

/// Routes that SDKs call.
const PUBLIC: &[fn(Routes) -> Routes] = &[
    crate::sdk::capture::routes,
    crate::sdk::evaluation::routes,
    crate::feature_flags::public_routes,
    crate::sdk::remote_config::routes,
    crate::sdk::static_files::routes,
];

/// Public routes come first and have few layers; everything else is management.
pub(crate) fn router(app: AppState) -> Router {
    let Served { management, public } = routes().serve(&app.metrics);
    let management = management
        .fallback(web::page_or_not_found)
        .layer(middleware::from_fn_with_state(app.clone(), management::within_bounds))
        .layer(middleware::from_fn(management::negotiate_content))
        .layer(middleware::from_fn(compress::compress))
        .layer(CatchPanicLayer::custom(cors::panicked))
        .layer(middleware::from_fn_with_state(app.clone(), observe::observe))
        .with_state(app.clone())
        .map_request(normalize::normalize as fn(Request) -> Request);
    public.with_state(app).fallback_service(management)
}

/// The OpenAPI document of all routes.
pub fn schema() -> Value {
    routes().document()
}

fn routes() -> Routes {
    let routes = Routes::new().get("/api/schema", read_schema);
    let routes = RESOURCES.iter().fold(routes, |routes, add| add(routes));
    routes.public(|routes| PUBLIC.iter().fold(routes, |routes, add| add(routes)))
}

async fn read_schema(State(app): App) -> Schema {
    Schema(app.openapi_json.get_or_init(|| schema().to_string().into()).clone())
}

struct Schema(Bytes);

impl IntoResponse for Schema {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.0));
        let media = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response.extensions_mut().insert(SharedBytes);
        response
    }
}

impl DescribeResponse for Schema {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        <Result<Json<Value>> as DescribeResponse>::describe_response(operation, schemas);
    }
}

#[cfg(test)]
mod tests;
