//! The entry point of every request. POSTs of events and flag evaluations, most of an instance's
//! traffic, go straight to their handlers; everything else goes through the router. The router has
//! those paths too, for their other methods, but matching a route costs as much as capturing an
//! event.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ::capture::Endpoint;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::ORIGIN;
use axum::http::{HeaderValue, Method, Request};
use axum::response::{IntoResponse as _, Response};
use axum::{BoxError, Router};
use bytes::Bytes;
use futures_util::FutureExt as _;
use tower::ServiceExt as _;
use tracing::Instrument as _;

use crate::http::body_reader::IncomingRequest;
use crate::http::metrics::RouteCounters;
use crate::http::observe::{self, REQUEST_ID};
use crate::http::response_budget::{self, Audience};
use crate::http::{cors, normalize};
use crate::sdk::{capture, evaluation, paths};
use crate::{AppState, router};

/// The whole HTTP side; cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    app: AppState,
    router: Router,
    fast_routes: Vec<FastRoute>,
}

/// A path whose POSTs skip the router.
struct FastRoute {
    path: &'static str,
    target: Target,
    counters: RouteCounters,
}

#[derive(Clone, Copy)]
enum Target {
    Events,
    EventsV1,
    Flags(evaluation::Endpoint),
}

fn targets() -> impl Iterator<Item = (&'static str, Target)> {
    paths::EVENTS.map(|path| (path, Target::Events)).into_iter().chain([
        (paths::EVENTS_V1, Target::EventsV1),
        (paths::FLAGS, Target::Flags(evaluation::Endpoint::Flags)),
        (paths::DECIDE, Target::Flags(evaluation::Endpoint::Decide)),
    ])
}

impl Service {
    pub fn new(app: AppState) -> Self {
        let fast_routes = targets()
            .map(|(path, target)| FastRoute { path, target, counters: app.metrics.counters(path) })
            .collect();
        Self(Arc::new(Inner { router: router::router(app.clone()), fast_routes, app }))
    }

    /// Responds to every request, failures included. `peer` is the connection's remote address.
    pub async fn respond<B>(self, request: Request<B>, peer: SocketAddr) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let inner = &*self.0;
        let id = observe::request_id(request.headers());
        let mut response = match inner.fast_route(&request) {
            Some(route) => {
                let (head, body) = request.into_parts();
                let sent = IncomingRequest { head, body, peer: Some(peer.ip()) };
                route.respond(&inner.app, sent, &id).await
            }
            None => {
                let span = observe::span(&id);
                Box::pin(inner.pass_to_router(request, peer)).instrument(span).await
            }
        };
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
}

impl Inner {
    /// Passes a request to the router.
    async fn pass_to_router<B>(&self, mut request: Request<B>, peer: SocketAddr) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        request.extensions_mut().insert(ConnectInfo(peer));
        let audience = match normalize::is_management(request.uri().path()) {
            true => Audience::Member,
            false => Audience::Public,
        };
        let Ok(response) = self.router.clone().oneshot(request.map(Body::new)).await;
        response_budget::reserve(&self.app, response, audience).await
    }

    fn fast_route<B>(&self, request: &Request<B>) -> Option<&FastRoute> {
        let path = request.uri().path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let is_post = request.method() == Method::POST;
        self.fast_routes.iter().find(|route| is_post && route.path == path)
    }
}

impl FastRoute {
    async fn respond<B>(
        &self,
        app: &AppState,
        sent: IncomingRequest<B>,
        id: &HeaderValue,
    ) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let origin = sent.head.headers.get(ORIGIN).cloned();
        let responded = AssertUnwindSafe(self.target.respond(app, sent)).catch_unwind().await;
        let panicked = |cause| observe::span(id).in_scope(|| cors::panicked(cause));
        let response = responded.unwrap_or_else(panicked);
        let mut response = match response_budget::is_small(&response) {
            true => response,
            false => Box::pin(response_budget::reserve(app, response, Audience::Public)).await,
        };
        if let Some(origin) = origin {
            cors::allow_origin(origin, response.headers_mut());
        }
        let status = response.status().as_u16();
        self.counters.count(&Method::POST, status);
        // No span: it would cost as much as the rest of the path.
        tracing::debug!(request.id = ?id, http.route = self.path, http.status = status, "answered");
        response
    }
}

impl Target {
    /// Boxes each handler's future: the connection holds this one, which would otherwise be as
    /// large as the largest handler's.
    async fn respond<B>(self, app: &AppState, sent: IncomingRequest<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        match self {
            Self::Events => {
                Box::pin(capture::capture_events(app, Endpoint::Events, sent)).await.into_response()
            }
            Self::EventsV1 => Box::pin(capture::capture_events_v1(app, sent)).await.into_response(),
            Self::Flags(endpoint) => {
                Box::pin(evaluation::evaluate_flags(app, endpoint, sent)).await.into_response()
            }
        }
    }
}
