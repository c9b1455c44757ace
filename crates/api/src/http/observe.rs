//! The layer that gives every request an id, a log line and metrics.
//!
//! Paths, query strings and bodies may contain keys, so only the route's template is logged.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::AppState;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids are replaced: each log line repeats the id.
const REQUEST_ID_BYTES_MAX: usize = 128;

pub(crate) async fn observe(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = given_id(request.headers()).unwrap_or_else(new_id);
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
    let route = route.to_owned();
    // An error span is enabled at every log level, so all events inside carry the id.
    let span = tracing::error_span!("request", id = id.to_str().unwrap_or_default());
    let in_flight = app.metrics.enter();
    let mut response = next.run(request).instrument(span.clone()).await;
    drop(in_flight);
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    let duration_us = took.as_micros() as u64;
    tracing::debug!(parent: &span, http.method = method, http.route = route, http.status = status, duration_us, "answered");
    app.metrics.responded(method, route, status, took);
    response.headers_mut().insert(REQUEST_ID, id);
    response
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

fn new_id() -> HeaderValue {
    let mut text = Uuid::encode_buffer();
    HeaderValue::from_str(Uuid::new_v4().hyphenated().encode_lower(&mut text))
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
    use super::*;

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
