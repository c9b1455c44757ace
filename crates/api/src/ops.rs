//! What operators and their machines ask: is it alive, is it ready, how is it doing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use crate::doc::{Answer, Operation};
use crate::{App, AppState, Found, Routes};

/// A catalog that takes longer to say yes is as good as away.
const PING_WAIT: Duration = Duration::from_secs(2);
/// The one path beside the probes that must answer when everything else is refused.
const METRICS: &str = "/metrics";

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/_livez", live)
        .get("/_liveness", live)
        .get("/_readyz", ready)
        .get("/_readiness", ready)
        .get("/_health", ready)
        .get(METRICS, metrics)
}

/// Probes keep answering when the server is full: a full server must not be restarted for it.
pub(crate) fn is_probe(path: &str) -> bool {
    path == METRICS || path.starts_with("/_")
}

#[derive(Serialize, JsonSchema)]
struct Live {
    status: Status,
}

#[derive(Serialize, JsonSchema)]
struct Health {
    status: Status,
    catalog: Status,
    draining: bool,
    version: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Unavailable,
}

async fn live() -> Found<Live> {
    Found(Live { status: Status::Ok })
}

async fn ready(app: App) -> Health {
    let catalog = match tokio::time::timeout(PING_WAIT, app.catalog.ping()).await {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(_)) | Err(_) => Status::Unavailable,
    };
    let draining = app.draining.load(Ordering::Relaxed);
    let status = if draining { Status::Unavailable } else { catalog };
    Health { status, catalog, draining, version: env!("CARGO_PKG_VERSION") }
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        let status = match self.status {
            Status::Ok => StatusCode::OK,
            Status::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, axum::Json(self)).into_response()
    }
}

impl Answer for Health {
    fn answer(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<Self>(200, schemas);
        operation.response::<Self>(503, schemas);
    }
}

struct Text(String);

async fn metrics(app: App) -> Text {
    Text(app.metrics.text())
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS))], self.0).into_response()
    }
}

impl Answer for Text {
    fn answer(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "application/openmetrics-text");
    }
}

impl AppState {
    /// From now on the server says that it is not ready, so that nobody sends it more.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.events.stop_watching();
    }
}
