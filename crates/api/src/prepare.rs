//! What happens to a management request before it meets a route: one spelling of its path and
//! method, and its body read within bounds.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use http_body_util::BodyExt;

use crate::Error;
use crate::body::{Received, is_json};

/// A client that sends too much is heard out up to this many times the limit: one whose
/// connection breaks while it sends never reads why.
const DISCARDED_LIMITS_MAX: usize = 16;

/// The address exactly as the client sent it; links keep it.
#[derive(Clone)]
pub(crate) struct SentUri(pub Uri);

/// Old paths without a project mean the caller's current one.
const LEGACY: &[(&str, &str)] = &[
    ("action", "actions"),
    ("annotation", "annotations"),
    ("cohort", "cohorts"),
    ("dashboard", "dashboards"),
    ("event", "events"),
    ("event_definition", "event_definitions"),
    ("feature_flag", "feature_flags"),
    ("insight", "insights"),
    ("person", "persons"),
    ("property_definition", "property_definitions"),
];

/// Rewrites the head of a request; runs around the router, since a route is chosen by it.
pub(crate) fn normalise(mut request: Request) -> Request {
    let sent = request.uri().clone();
    if let Some(path) = canonical(sent.path()) {
        let rewritten = match sent.query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        if let Ok(uri) = rewritten.parse::<Uri>() {
            *request.uri_mut() = uri;
        }
    }
    if is_management(sent.path())
        && request.method() == Method::POST
        && let Some(method) = overridden(&request)
    {
        *request.method_mut() = method;
    }
    request.extensions_mut().insert(SentUri(sent));
    request
}

pub(crate) fn is_management(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn overridden(request: &Request) -> Option<Method> {
    let wanted = request.headers().get("x-http-method-override")?.to_str().ok()?;
    match wanted.to_ascii_uppercase().as_str() {
        "PATCH" => Some(Method::PATCH),
        "PUT" => Some(Method::PUT),
        "DELETE" => Some(Method::DELETE),
        _ => None,
    }
}

/// The path a route is registered under; none when it is spelled so already.
fn canonical(sent: &str) -> Option<String> {
    let path = match sent.strip_suffix('/') {
        Some("") | None => sent,
        Some(trimmed) => trimmed,
    };
    if let Some(rest) = path.strip_prefix("/api/environments") {
        let path = format!("/api/projects{rest}");
        return Some(plural(&path).unwrap_or(path));
    }
    if let Some(path) = plural(path) {
        return Some(path);
    }
    if let Some(rest) = path.strip_prefix("/api/") {
        let (first, tail) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
        if let Ok(index) = LEGACY.binary_search_by_key(&first, |(old, _)| old) {
            let resource = LEGACY[index].1;
            return Some(match tail {
                Some(tail) => format!("/api/projects/@current/{resource}/{tail}"),
                None => format!("/api/projects/@current/{resource}"),
            });
        }
    }
    (path.len() < sent.len()).then(|| path.to_owned())
}

/// Terraform's provider asks for the access controls of a `dashboard`, not of `dashboards`.
fn plural(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/api/projects/")?;
    let [project, kind, id, "access_controls"] = rest.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let index = LEGACY.binary_search_by_key(&kind, |(old, _)| old).ok()?;
    Some(format!("/api/projects/{project}/{}/{id}/access_controls", LEGACY[index].1))
}

/// Reads the body of a management request into its extensions. One that is too large is
/// remembered as such: who may not call here must not learn its limits first.
pub(crate) async fn read_body(request: Request, limit_bytes: usize) -> Request {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Arc::new(receive(body, limit_bytes).await));
    Request::from_parts(parts, Body::empty())
}

async fn receive(mut body: Body, limit_bytes: usize) -> Received {
    let mut whole = BytesMut::new();
    let mut received_bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Received::Broken };
        let Ok(data) = frame.into_data() else { continue };
        received_bytes = received_bytes.saturating_add(data.len());
        if received_bytes <= limit_bytes {
            whole.extend_from_slice(&data);
        } else if received_bytes > limit_bytes.saturating_mul(DISCARDED_LIMITS_MAX) {
            break;
        }
    }
    if received_bytes > limit_bytes {
        return Received::TooLarge { limit_bytes };
    }
    Received::Whole(whole.freeze())
}

/// Answers 406 to whoever will not take JSON, the one form that answers have here; only events
/// have others.
pub(crate) async fn acceptable(request: Request, next: Next) -> Response {
    let accepts = request.headers().get_all(header::ACCEPT);
    let mut ranges = accepts.iter().flat_map(|value| value.to_str().unwrap_or("*/*").split(','));
    let is_events = request.uri().path().contains("/events");
    let fits = |range: &str| {
        let media = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let other =
            is_events && matches!(media.as_str(), "text/csv" | "text/event-stream" | "text/*");
        other || matches!(media.as_str(), "" | "*/*" | "*" | "application/*") || is_json(&media)
    };
    let unbound = accepts.iter().next().is_none() || !is_management(request.uri().path());
    if unbound || ranges.any(fits) {
        return next.run(request).await;
    }
    Error::not_acceptable().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_becomes_one() {
        for (sent, expected) in [
            ("/api/projects/1/actions", None),
            ("/api/projects/1/actions/", Some("/api/projects/1/actions")),
            ("/api/environments/1/actions/", Some("/api/projects/1/actions")),
            ("/api/environments/@current", Some("/api/projects/@current")),
            ("/api/action/", Some("/api/projects/@current/actions")),
            ("/api/action/7", Some("/api/projects/@current/actions/7")),
            ("/api/actions", None),
            (
                "/api/projects/1/feature_flag/7/access_controls/",
                Some("/api/projects/1/feature_flags/7/access_controls"),
            ),
            (
                "/api/environments/1/dashboard/7/access_controls",
                Some("/api/projects/1/dashboards/7/access_controls"),
            ),
            ("/api/projects/1/dashboards/7/access_controls", None),
            ("/api/projects/1/dashboard/7", None),
            ("/", None),
            ("/e/", Some("/e")),
        ] {
            assert_eq!(canonical(sent).as_deref(), expected, "{sent}");
        }
        assert!(LEGACY.is_sorted());
    }
}
