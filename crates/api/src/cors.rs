//! Which pages of other sites may read our answers: any, on the paths their SDK uses, and none
//! elsewhere.
//!
//! Public paths take a token from the request and never look at cookies, so letting a page send
//! them (as the SDK does) opens nothing. Management paths know cookies, so they stay closed.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// First segments of the paths that SDKs in browsers call.
const PUBLIC: &[&str] = &[
    "array", "batch", "capture", "decide", "e", "engage", "flags", "i", "report", "s", "static",
    "track",
];
/// The same below `/api/`.
const PUBLIC_API: &[&str] =
    &["early_access_features", "product_tours", "surveys", "web_experiments"];
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, OPTIONS, HEAD");
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("86400");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

pub(crate) async fn share(request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let Some(origin) = origin.filter(|_| is_public(request.uri().path())) else {
        return next.run(request).await;
    };
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks { preflight(request.headers()) } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    headers.insert(ALLOW, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if asked.get(REQUEST_PRIVATE_NETWORK) == Some(&TRUE) {
        headers.insert(ALLOW_PRIVATE_NETWORK, TRUE);
    }
    response
}

fn is_public(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    match segments.next() {
        Some("api") => segments.next().is_some_and(|name| PUBLIC_API.contains(&name)),
        Some(name) => PUBLIC.contains(&name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_browser_sdks_are_public() {
        for (path, public) in [
            ("/e", true),
            ("/e/", true),
            ("/i/v0/e", true),
            ("/flags", true),
            ("/static/array.js", true),
            ("/api/surveys", true),
            ("/api/projects/1/surveys", false),
            ("/api/users/@me", false),
            ("/api", false),
            ("/events", false),
            ("/_health", false),
            ("/metrics", false),
            ("/", false),
        ] {
            assert_eq!(is_public(path), public, "{path}");
        }
    }
}
