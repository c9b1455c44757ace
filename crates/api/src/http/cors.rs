//! CORS, metrics and panic handling around the public routes that SDKs call.
//!
//! Pages of any origin may call these routes with credentials, as the browser SDK does, and read
//! the response. That is safe because the layer removes cookies: only a token in the request
//! identifies the project. The layer does little, since most requests are events.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, COOKIE, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::Error;
use crate::http::metrics::RouteCounters;

pub(crate) const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, OPTIONS");
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("86400");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// The response to OPTIONS: `allow` for the path, and `methods` for a CORS preflight.
pub(crate) fn preflight_response(
    status: StatusCode,
    allow: HeaderValue,
    methods: HeaderValue,
    requested: &HeaderMap,
) -> Response {
    let mut response = status.into_response();
    let headers = response.headers_mut();
    headers.insert(ALLOW, allow);
    if !requested.contains_key(ORIGIN) || !requested.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return response;
    }
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    if let Some(headers_requested) = requested.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers_requested.clone());
    }
    if requested.get(REQUEST_PRIVATE_NETWORK) == Some(&TRUE) {
        headers.insert(ALLOW_PRIVATE_NETWORK, TRUE);
    }
    response
}

/// The layer around every public route.
#[derive(Clone)]
pub(crate) struct Cors(Arc<RouteCounters>);

impl Cors {
    pub(crate) fn new(counters: RouteCounters) -> Self {
        Self(Arc::new(counters))
    }
}

impl<S> Layer<S> for Cors {
    type Service = CorsService<S>;

    fn layer(&self, inner: S) -> CorsService<S> {
        CorsService { inner, counters: self.0.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct CorsService<S> {
    inner: S,
    counters: Arc<RouteCounters>,
}

impl<S> Service<Request> for CorsService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = CorsFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        // Any page may read the response, so the visitor's session must not affect it.
        request.headers_mut().remove(COOKIE);
        let origin = request.headers().get(ORIGIN).cloned();
        let (method, counters) = (request.method().clone(), self.counters.clone());
        CorsFuture { inner: self.inner.call(request), origin, method, counters }
    }
}

pin_project! {
    pub(crate) struct CorsFuture<F> {
        #[pin]
        inner: F,
        origin: Option<HeaderValue>,
        method: Method,
        counters: Arc<RouteCounters>,
    }
}

impl<F> Future for CorsFuture<F>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Unwind safe: the request is not used again after a panic.
        let polled = catch_unwind(AssertUnwindSafe(|| this.inner.poll(context)));
        let mut response = match polled {
            Ok(polled) => match ready!(polled) {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(cause) => panicked(cause),
        };
        if let Some(origin) = this.origin.take() {
            allow_origin(origin, response.headers_mut());
            if response.extensions().get::<NoCookieCredentials>().is_some() {
                response.headers_mut().remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
            }
        }
        this.counters.count(this.method, response.status().as_u16());
        Poll::Ready(Ok(response))
    }
}

/// Marks a response that takes a key. A page that sent the key may read it, but not in a request
/// with the browser's own credentials.
#[derive(Clone, Copy)]
pub(crate) struct NoCookieCredentials;

/// Lets pages of the origin read the response.
pub(crate) fn allow_origin(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    // posthog-js reads it from every response.
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// A 500 instead of a closed connection after a handler panicked.
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    Error::panicked(text.or_else(|| cause.downcast_ref::<&str>().copied())).into_response()
}
