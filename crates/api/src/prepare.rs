//! What happens to a management request before it meets a route: one spelling of its path and
//! method, and its body read within bounds.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use capture::{BodyReservation, Sender, ValuesReservation};
use decode::parsed_bytes_max;

use crate::body::{Received, is_json};
use crate::intake::{Missed, receive};
use crate::{AppState, Error, Result, auth};

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

/// The longest body of a log-in; whoever sends it has shown nothing yet.
const LOG_IN_BYTES_MAX: usize = 16 << 10;
const LOG_IN: [&str; 2] = ["/api/login", "/api/logout"];
/// Bodies whose values are held without being counted: as many as requests are worked on at once.
const UNCOUNTED_VALUES_BYTES: usize = 16 << 10;

/// Room that a management request holds until it is answered.
#[derive(Default)]
pub(crate) struct Room<'a> {
    _body: Option<BodyReservation<'a>>,
    _values: Option<ValuesReservation<'a>>,
}

/// Reads the body of a management request into its extensions. One that is too large is
/// remembered as such: who may not call here must not learn its limits first.
///
/// Who calls is found out first where the head says it: strangers share little room.
pub(crate) async fn read_body(app: &AppState, request: Request) -> Result<(Request, Room<'_>)> {
    if request.body().is_end_stream() {
        return Ok((request, Room::default()));
    }
    let (mut parts, mut body) = request.into_parts();
    let sender = auth::sender(&mut parts, app).await;
    let limit_bytes = match LOG_IN.contains(&parts.uri.path()) {
        true => LOG_IN_BYTES_MAX.min(app.settings.body_bytes_max),
        false => app.settings.body_bytes_max,
    };
    let mut room = Room::default();
    let received = match receive(app, &parts.headers, &mut body, sender, limit_bytes).await {
        Ok(received) => {
            room._body = Some(received.counted);
            Received::Whole(received.bytes.into_bytes())
        }
        Err(Missed::TooLarge) => Received::TooLarge { limit_bytes },
        Err(Missed::CutShort) => Received::Broken,
        Err(Missed::Stalled) => return Err(Error::too_slow()),
        Err(Missed::Busy) => return Err(Error::busy()),
    };
    if let Received::Whole(bytes) = &received {
        let values = parsed_bytes_max(bytes);
        let parsed = sender == Sender::Member || auth::may_hold_key(bytes);
        if parsed && values > UNCOUNTED_VALUES_BYTES {
            let values = app.capture.budget().reserve_values(values).await;
            room._values = Some(values.map_err(|_| Error::busy())?);
        }
    }
    parts.extensions.insert(Arc::new(received));
    Ok((Request::from_parts(parts, Body::empty()), room))
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
