//! Liveness, readiness and metrics endpoints.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::http::error::ErrorBody;
use crate::http::openapi::{DescribeResponse, Operation};

use crate::{App, AppState, Json, Outage, Query, Routes};

/// A catalog that does not answer a ping within this time counts as unavailable.
const PING_WAIT: Duration = Duration::from_secs(2);
/// Besides the probes, the only path that is served under overload.
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

/// Whether a path is served without a permit, also under overload.
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
    /// Absent if the requested part does not need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog: Option<Status>,
    /// Whether events are accepted.
    capture: Status,
    /// Whether reads see every event that was acknowledged before the server started.
    query: Status,
    draining: bool,
    /// Why each unavailable part is unavailable.
    reasons: Vec<String>,
    version: &'static str,
}

/// The traffic that a load balancer routes here.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Part {
    Capture,
    Query,
}

#[derive(Deserialize, JsonSchema)]
struct ReadinessQuery {
    /// The part that must be ready; all parts by default.
    #[serde(rename = "for")]
    part: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Unavailable,
}

async fn live() -> Json<Live> {
    Json(Live { status: Status::Ok })
}

/// A backlog that builds up later does not count. Only the replay after a start makes reads older
/// than they were before it.
async fn ready(app: App, query: Query<ReadinessQuery>) -> Health {
    let mut reasons = Vec::new();
    let mut part = |name: &str, why: Option<String>| match why {
        None => Status::Ok,
        Some(why) => {
            reasons.push(format!("{name}: {why}"));
            Status::Unavailable
        }
    };
    // Capture works from cached tokens while the catalog is unavailable.
    let catalog = if query.part == Some(Part::Capture) {
        None
    } else {
        let pinged = tokio::time::timeout(PING_WAIT, app.catalog.ping()).await;
        let failure = (!matches!(pinged, Ok(Ok(())))).then(|| "it does not answer".to_owned());
        Some(part("catalog", failure))
    };
    let capture = part("capture", app.capture.refusal().map(|why| why.to_string()));
    let left = app.replay_remaining.get().map_or(0, |remaining| remaining());
    let replay = (left > 0).then(|| {
        format!("{left} records that the journal had at the start are still being replayed")
    });
    let outage = app.store_outage.get().and_then(|outage| outage());
    let outage = outage.map(|outage| outage.shown.to_owned());
    let waits = outage.or(replay).or_else(|| app.events.persons_progress());
    let mut query_status = part("query", waits);
    if catalog == Some(Status::Unavailable) {
        query_status = Status::Unavailable;
    }
    let needed = match query.part {
        Some(Part::Capture) => capture == Status::Ok,
        Some(Part::Query) => query_status == Status::Ok,
        None => capture == Status::Ok && query_status == Status::Ok,
    };
    let draining = app.draining.load(Ordering::Relaxed);
    let status = if needed && !draining { Status::Ok } else { Status::Unavailable };
    let version = env!("CARGO_PKG_VERSION");
    Health { status, catalog, capture, query: query_status, draining, reasons, version }
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

impl DescribeResponse for Health {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<Self>(200, schemas);
        operation.response::<ErrorBody>(400, schemas);
        operation.response::<Self>(503, schemas);
    }
}

struct MetricsText(String);

async fn metrics(app: App) -> MetricsText {
    MetricsText(app.metrics.encode())
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl IntoResponse for MetricsText {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS))], self.0).into_response()
    }
}

impl DescribeResponse for MetricsText {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "application/openmetrics-text");
    }
}

impl AppState {
    /// `left` returns how many records of the backlog at the start are not applied yet.
    pub fn watch_replay(&self, left: impl Fn() -> u64 + Send + Sync + 'static) {
        // A server has one pipeline, so this is set once.
        let _ = self.replay_remaining.set(Box::new(left));
    }

    /// `outage` returns why the store of events does not answer.
    pub fn watch_store(&self, outage: impl Fn() -> Option<Outage> + Send + Sync + 'static) {
        // A server has one store, so this is set once.
        let _ = self.store_outage.set(Box::new(outage));
    }

    /// Reports not ready from now on, so that load balancers stop sending requests.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.events.close_live_streams();
    }
}
