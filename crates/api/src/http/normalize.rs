//! Rewrites a management request's path and method to the one spelling that routes are registered
//! under.

use axum::extract::Request;
use axum::http::{Method, Uri};

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
pub(crate) fn normalize(mut request: Request) -> Request {
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
