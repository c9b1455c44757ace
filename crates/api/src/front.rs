//! The way in. Events and questions for flags, which are most of what an instance is asked, go
//! straight to what answers them; everything else goes through the router. It knows those paths
//! as well, and answers other methods there, but finding one costs as much as taking an event in.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ::capture::Endpoint;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::ORIGIN;
use axum::http::{Method, Request};
use axum::response::{IntoResponse as _, Response};
use axum::{BoxError, Router};
use bytes::Bytes;
use futures_util::FutureExt as _;
use tower::ServiceExt as _;

use crate::intake::Arrived;
use crate::metrics::Answers;
use crate::{AppState, answers, capture, evaluation, prepare, public, router};

/// The whole HTTP side; cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    app: AppState,
    router: Router,
    straight: Vec<Straight>,
}

/// A path that needs no router, without the slash at its end.
struct Straight {
    path: &'static str,
    to: To,
    answers: Answers,
}

#[derive(Clone, Copy)]
enum To {
    Events,
    EventsV1,
    Flags(evaluation::Endpoint),
}

const STRAIGHT: [(&str, To); 8] = [
    ("/batch", To::Events),
    ("/e", To::Events),
    ("/i/v0/e", To::Events),
    ("/capture", To::Events),
    ("/track", To::Events),
    ("/i/v1/analytics/events", To::EventsV1),
    ("/flags", To::Flags(evaluation::Endpoint::Flags)),
    ("/decide", To::Flags(evaluation::Endpoint::Decide)),
];

impl Service {
    pub fn new(app: AppState) -> Self {
        let straight = STRAIGHT
            .map(|(path, to)| Straight { path, to, answers: app.metrics.answers(path) })
            .into();
        Self(Arc::new(Inner { router: router::router(app.clone()), straight, app }))
    }

    /// Never fails; `peer` is at the other end of the connection.
    pub async fn answer<B>(self, mut request: Request<B>, peer: SocketAddr) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let inner = &*self.0;
        if let Some(straight) = inner.straight(&request) {
            let (head, body) = request.into_parts();
            let sent = Arrived { head, body, peer: Some(peer.ip()) };
            return straight.answer(&inner.app, sent).await;
        }
        request.extensions_mut().insert(ConnectInfo(peer));
        let of = match prepare::is_management(request.uri().path()) {
            true => answers::To::Member,
            false => answers::To::Anybody,
        };
        let Ok(response) = Box::pin(inner.router.clone().oneshot(request.map(Body::new))).await;
        answers::hold(&inner.app, response, of).await
    }
}

impl Inner {
    fn straight<B>(&self, request: &Request<B>) -> Option<&Straight> {
        let path = request.uri().path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let posted = request.method() == Method::POST;
        self.straight.iter().find(|straight| posted && straight.path == path)
    }
}

impl Straight {
    async fn answer<B>(&self, app: &AppState, sent: Arrived<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let origin = sent.head.headers.get(ORIGIN).cloned();
        let answered = AssertUnwindSafe(self.to.answer(app, sent)).catch_unwind().await;
        let response = answered.unwrap_or_else(public::panicked);
        let mut response = match answers::is_small(&response) {
            true => response,
            false => Box::pin(answers::hold(app, response, answers::To::Anybody)).await,
        };
        if let Some(origin) = origin {
            public::open_to(origin, response.headers_mut());
        }
        self.answers.count(&Method::POST, response.status().as_u16());
        response
    }
}

impl To {
    /// Each is boxed: a request is moved into its connection, and would be as large as all.
    async fn answer<B>(self, app: &AppState, sent: Arrived<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        match self {
            Self::Events => {
                Box::pin(capture::take(app, Endpoint::Events, sent)).await.into_response()
            }
            Self::EventsV1 => Box::pin(capture::take_v1(app, sent)).await.into_response(),
            Self::Flags(to) => Box::pin(evaluation::answer(app, to, sent)).await.into_response(),
        }
    }
}
