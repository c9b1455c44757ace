//! Compresses large JSON responses of the management API.
//!
//! Responses that hold a secret are never compressed: their length would tell an attacker who can
//! make the victim's browser repeat a request how well a guess matches the secret (BREACH). So only
//! the resources listed here are, and no stream.

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use libdeflater::{CompressionLvl, Compressor};

use crate::http::embedded_file::accepts_encoding;
use crate::http::response_budget::SharedBytes;

/// Smaller responses fit into a few packets.
const PLAIN_BYTES_MAX: u64 = 8 << 10;
/// Larger responses are compressed on a blocking thread, so that they delay no other request.
const INLINE_BYTES_MAX: usize = 128 << 10;
/// Five to ten times smaller at about 200 MB/s; a higher level gains little.
const LEVEL: i32 = 3;
const PROJECT: &str = "/api/projects/{project_id}/";
/// Resources of a project whose responses hold no secret.
const RESOURCES: [&str; 13] = [
    "actions",
    "activity_log",
    "annotations",
    "cohorts",
    "dashboards",
    "event_definitions",
    "events",
    "groups",
    "insights",
    "persons",
    "property_definitions",
    "query",
    "search",
];
/// The part of a resource that shows the token of its link.
const SHARING: &str = "sharing";

pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let may_compress = is_without_secrets(route);
    let accepts = accepts_encoding(request.headers(), "gzip");
    let response = next.run(request).await;
    if !may_compress || !is_large_json(&response) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !accepts {
        return Response::from_parts(head, body);
    }
    // A body of known length is in memory already, so this does not fail.
    let plain = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let compressed = match plain.len() <= INLINE_BYTES_MAX {
        true => gzip(&plain),
        false => {
            let plain = plain.clone();
            tokio::task::spawn_blocking(move || gzip(&plain)).await.unwrap_or_default()
        }
    };
    let body = match compressed {
        Some(compressed) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            head.extensions.remove::<SharedBytes>();
            compressed
        }
        None => plain,
    };
    Response::from_parts(head, Body::from(body))
}

fn is_without_secrets(route: &str) -> bool {
    if route == "/api/schema" {
        return true;
    }
    let Some(rest) = route.strip_prefix(PROJECT) else { return false };
    let mut segments = rest.split('/');
    let listed = segments.next().is_some_and(|first| RESOURCES.contains(&first));
    listed && !segments.any(|segment| segment == SHARING)
}

fn is_large_json(response: &Response) -> bool {
    let is_json = |headers: &HeaderMap| {
        let media = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        media.is_some_and(|media| media.starts_with(b"application/json"))
    };
    // A stream has no exact size.
    response.body().size_hint().exact().is_some_and(|bytes| bytes > PLAIN_BYTES_MAX)
        && is_json(response.headers())
        && !response.headers().contains_key(header::CONTENT_ENCODING)
}

/// None if it would not shrink.
fn gzip(plain: &[u8]) -> Option<Bytes> {
    let level = CompressionLvl::new(LEVEL).expect("the level exists");
    let mut compressed = vec![0; plain.len()];
    let length = Compressor::new(level).gzip_compress(plain, &mut compressed).ok()?;
    compressed.truncate(length);
    Some(compressed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_with_secrets_are_not_compressed() {
        for route in [
            "/api/schema",
            "/api/projects/{project_id}/query",
            "/api/projects/{project_id}/insights/{id}",
        ] {
            assert!(is_without_secrets(route), "{route}");
        }
        for route in [
            "",
            "/api/projects/{project_id}",
            "/api/projects/{project_id}/dashboards/{id}/sharing",
            "/api/projects/{project_id}/feature_flags/{id}/remote_config",
            "/api/personal_api_keys",
            "/api/users/{id}",
            "/shared/{id}",
        ] {
            assert!(!is_without_secrets(route), "{route}");
        }
        assert!(RESOURCES.is_sorted());
    }
}
