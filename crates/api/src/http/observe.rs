//! Request ids, and the layer that gives management requests a log line and metrics.
//!
//! Paths, query strings and bodies may contain keys, so only the route's template is logged.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Span;
use uuid::Uuid;

use crate::AppState;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids are replaced: each log line repeats the id.
const REQUEST_ID_BYTES_MAX: usize = 128;

pub(crate) async fn observe(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
    let route = route.to_owned();
    let in_flight = app.metrics.enter();
    let response = next.run(request).await;
    drop(in_flight);
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    let duration_us = took.as_micros() as u64;
    tracing::debug!(
        http.method = method,
        http.route = route,
        http.status = status,
        duration_us,
        "answered"
    );
    app.metrics.responded(method, route, status, took);
    response
}

/// The id of a request: the client's, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    given_id(headers).unwrap_or_else(new_id)
}

/// The span of a request. An error span is enabled at every log level, so all events inside carry
/// the id.
pub(crate) fn span(id: &HeaderValue) -> Span {
    tracing::error_span!("request", id = id.to_str().unwrap_or_default())
}

/// The client's request id, if it is safe to log.
fn given_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    headers
        .get(REQUEST_ID)
        .filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()))
        .filter(|id| id.as_bytes().iter().all(sane))
        .cloned()
}

/// A random start and a counter: every captured event takes one, and randomness from the system
/// would cost a system call each.
fn new_id() -> HeaderValue {
    static START: LazyLock<u128> = LazyLock::new(|| Uuid::new_v4().as_u128());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    /// Odd, so that no two counts give one id; the golden ratio spreads them.
    const STEP: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
    let number = START.wrapping_add(count.wrapping_mul(STEP));
    let id = uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid();
    let mut text = Uuid::encode_buffer();
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut text))
        .expect("hexadecimal digits and dashes make a header")
}

/// Unknown methods share one label, which bounds the number of time series.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn new_request_ids_differ() {
        let ids: HashSet<HeaderValue> = (0..10_000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| Uuid::parse_str(id.to_str().unwrap()).is_ok()));
    }

    #[test]
    fn request_id_is_accepted_only_if_safe_to_log() {
        let long = "x".repeat(REQUEST_ID_BYTES_MAX + 1);
        for (given, taken) in [
            ("0197-ab.c_D", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            ("two words", false),
            ("new\u{fc}", false),
            ("a;b", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(given.as_bytes()).unwrap());
            assert_eq!(given_id(&headers).is_some(), taken, "{given}");
        }
    }
}
