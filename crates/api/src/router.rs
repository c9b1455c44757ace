//! All routes, and the layers around them.

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::SchemaGenerator;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

use crate::answers::Shared;
use crate::doc::{Answer, Operation};
use crate::routes::Served;
use crate::{AppState, Error, Found, Result, Routes, observe, ops, prepare, public};

/// Everything that adds routes, one line each.
const RESOURCES: &[fn(Routes) -> Routes] = &[
    crate::access_controls::routes,
    crate::actions::routes,
    crate::activity::routes,
    crate::annotations::routes,
    crate::cohorts::routes,
    crate::collaborators::routes,
    crate::dashboards::routes,
    crate::dead_letters::routes,
    crate::event_definitions::routes,
    crate::events::routes,
    crate::feature_flags::routes,
    crate::groups::routes,
    crate::insights::routes,
    crate::keys::routes,
    crate::members::routes,
    crate::ops::routes,
    crate::organizations::routes,
    crate::persons::routes,
    crate::projects::routes,
    crate::property_definitions::routes,
    crate::queries::routes,
    crate::roles::routes,
    crate::search::routes,
    crate::session::routes,
    crate::shared_pages::routes,
    crate::sharing::routes,
    crate::users::routes,
    crate::warnings::routes,
];

/// The same, for those that SDKs call.
const PUBLIC: &[fn(Routes) -> Routes] = &[
    crate::capture::routes,
    crate::evaluation::routes,
    crate::feature_flags::public_routes,
    crate::remote_config::routes,
    crate::static_files::routes,
];

/// Public routes come first and have little around them; everything else is for management.
pub(crate) fn router(app: AppState) -> Router {
    let Served { management, public } = routes().serve(&app.metrics);
    let management = management
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(app.clone(), within_bounds))
        .layer(middleware::from_fn(prepare::acceptable))
        .layer(CatchPanicLayer::custom(public::panicked))
        .layer(middleware::from_fn_with_state(app.clone(), observe::observe))
        .with_state(app.clone())
        .map_request(prepare::normalise as fn(Request) -> Request);
    public.with_state(app).fallback_service(management)
}

/// The OpenAPI document of everything that is answered.
pub fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| routes().document())
}

fn routes() -> Routes {
    let routes = Routes::new().get("/api/schema", read_schema);
    let routes = RESOURCES.iter().fold(routes, |routes, add| add(routes));
    routes.public(|routes| PUBLIC.iter().fold(routes, |routes, add| add(routes)))
}

/// Written once: whoever asks for it holds nothing of ours but a reference.
async fn read_schema() -> Schema {
    Schema
}

struct Schema;

impl IntoResponse for Schema {
    fn into_response(self) -> Response {
        static JSON: OnceLock<Bytes> = OnceLock::new();
        let json = JSON.get_or_init(|| schema().to_string().into());
        let mut response = Response::new(Body::from(json.clone()));
        let media = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response.extensions_mut().insert(Shared);
        response
    }
}

impl Answer for Schema {
    fn answer(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        <Result<Found<Value>> as Answer>::answer(operation, schemas);
    }
}

async fn nowhere() -> Error {
    Error::not_found()
}

/// A short burst waits for its turn; a longer one is better told than kept waiting.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// Size, time and number of management requests. A body is read before its request takes a turn,
/// so that slow senders hold up nobody but themselves.
async fn within_bounds(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let deadline = Instant::now() + app.settings.request_time();
    let (request, _room) = match timeout_at(deadline, prepare::read_body(&app, request)).await {
        Ok(Ok(read)) => read,
        Ok(Err(refused)) => return refused.into_response(),
        Err(_) => return Error::too_slow().into_response(),
    };
    // A full server must not be restarted for being full, so probes need no turn.
    let turn = match ops::is_probe(request.uri().path()) {
        true => Ok(None),
        false => timeout(TURN_WAIT, app.turns.acquire()).await.map(std::result::Result::ok),
    };
    let Ok(_turn) = turn else {
        app.metrics.refused();
        return Error::busy().into_response();
    };
    match timeout_at(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::timed_out().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let paths = schema()["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
        let names: Vec<&str> =
            operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        assert!(!names.is_empty());
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
    }

    #[tokio::test]
    async fn a_panic_becomes_an_answer_that_tells_nothing() {
        let broken = async || -> Response { panic!("a secret") };
        let router: Router = Router::new().fallback(broken);
        let router = router.layer(CatchPanicLayer::custom(public::panicked));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("server_error") && !body.contains("secret"), "{body}");
    }
}
