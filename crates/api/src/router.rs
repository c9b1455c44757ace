//! All routes, and the layers around them.

use std::sync::OnceLock;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tower::ServiceExt as _;
use tower::util::MapRequest;

use crate::{AppState, Error, Found, Result, Routes, keys, prepare, session};

/// The whole HTTP side as one service.
pub type Service = MapRequest<Router, fn(Request) -> Request>;

pub fn service(app: AppState) -> Service {
    let (management, _) = routes().finish();
    let router = management
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(app.clone(), within_bounds))
        .with_state(app);
    router.map_request(prepare::normalise as fn(Request) -> Request)
}

/// The OpenAPI document of everything [`service`] answers.
pub fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| routes().finish().1)
}

fn routes() -> Routes {
    let routes = Routes::new().get("/api/schema", read_schema);
    [session::routes, keys::routes].into_iter().fold(routes, |routes, add| add(routes))
}

async fn read_schema() -> Result<Found<Value>> {
    Ok(Found(schema().clone()))
}

async fn nowhere() -> Error {
    Error::not_found()
}

/// Time and size bounds of management requests.
async fn within_bounds(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let work = async {
        let request = prepare::read_body(request, app.settings.body_bytes_max).await;
        next.run(request).await
    };
    match tokio::time::timeout(app.settings.request_time(), work).await {
        Ok(response) => response,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, Error::timed_out()).into_response(),
    }
}
