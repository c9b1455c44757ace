//! Rewrites a management request's path and method to the one spelling that routes are registered
//! under.

use axum::extract::Request;
use axum::http::{Method, Uri};

/// The URI as the client sent it, which links to other pages keep.
#[derive(Clone)]
pub(crate) struct SentUri(pub Uri);

/// Legacy paths without a project, which mean the caller's current project.
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

/// Rewrites path and method before the router matches them.
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
    let method = request.headers().get("x-http-method-override")?.to_str().ok()?;
    match method.to_ascii_uppercase().as_str() {
        "PATCH" => Some(Method::PATCH),
        "PUT" => Some(Method::PUT),
        "DELETE" => Some(Method::DELETE),
        _ => None,
    }
}

/// The path that the route is registered under; none if it needs no rewriting.
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

/// Terraform's provider uses `dashboard/{id}/access_controls`, not `dashboards/…`.
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
    fn path_spellings_normalize_to_the_registered_path() {
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
