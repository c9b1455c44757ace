//! The web interface: the page that every address of it answers with, and the files that the page
//! loads. `tools/build-web` builds both, and the build of this crate embeds them.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::SchemaGenerator;
use uuid::Uuid;

use crate::auth::browser_session::cookie;
use crate::http::embedded_file::{CACHE_IMMUTABLE, EmbeddedFile, is_refused};
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::{Error, Result, Routes, StringId};

include!(concat!(env!("OUT_DIR"), "/web.rs"));

/// The names of the files that shared pages load.
#[derive(Clone, Copy)]
pub(crate) struct SharedFiles {
    pub script: &'static str,
    pub style: &'static str,
}

/// What shared pages load; None for a build without the web interface.
pub(crate) const fn shared_files() -> Option<SharedFiles> {
    SHARED
}

/// First segments of the web interface's paths. SDKs use none of them, so that a mistyped SDK path
/// stays a 404 in JSON.
const SEGMENTS: [&str; 5] = ["", "instance", "login", "project", "setup"];
const THEME_COOKIE: &str = "hedgerow_theme";
/// Placeholders of the page.
const NONCE: &str = "__NONCE__";
const THEME: &str = "__THEME__";
/// The page of a build without the web interface.
const NOT_BUILT: &str = include_str!("web/not_built.html");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/assets/{id}", file)
}

/// Whether the build embeds the web interface.
pub const fn is_embedded() -> bool {
    PAGE.is_some()
}

/// A path without a route: the page for a browser that navigates to an address of the web
/// interface, 404 for all else.
pub(crate) async fn page_or_not_found(request: Request) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads || !is_page(request.uri().path()) || !accepts_html(request.headers()) {
        return Error::not_found().into_response();
    }
    let nonce = Uuid::new_v4().simple().to_string();
    let theme = theme(request.headers());
    let (status, page) = match PAGE {
        Some(page) => (StatusCode::OK, page),
        None => (StatusCode::NOT_FOUND, NOT_BUILT),
    };
    let page = page.replace(NONCE, &nonce).replace(THEME, theme);
    let media = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    let mut response = (status, [media], page).into_response();
    protect(response.headers_mut(), &nonce);
    response
}

fn is_page(path: &str) -> bool {
    let mut segments = path.trim_start_matches('/').split('/');
    path.starts_with('/')
        && !path.starts_with("//")
        && segments.next().is_some_and(|first| SEGMENTS.contains(&first))
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|range| {
        let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
        media.trim().eq_ignore_ascii_case("text/html") && !is_refused(parameters)
    })
}

/// The theme that the page begins with, so that it does not flash in another.
fn theme(headers: &HeaderMap) -> &'static str {
    match cookie(headers, THEME_COOKIE).as_deref() {
        Some("light") => "light",
        Some("dark") => "dark",
        _ => "system",
    }
}

/// Security headers: scripts and styles of this origin only, no frames, no cache.
fn protect(headers: &mut HeaderMap, nonce: &str) {
    let policy = format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}'; \
         style-src-elem 'self' 'nonce-{nonce}'; style-src-attr 'none'; \
         img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

async fn file(name: StringId, headers: HeaderMap) -> Result<FileResponse> {
    let file = EmbeddedFile::find(FILES, &name.0).ok_or_else(|| {
        Error::not_found_because(
            "There is no such file. A page of an earlier version may name it: reload the page.",
        )
    })?;
    Ok(FileResponse { file, headers })
}

struct FileResponse {
    file: &'static EmbeddedFile,
    headers: HeaderMap,
}

impl IntoResponse for FileResponse {
    fn into_response(self) -> Response {
        // The name contains a hash of the content.
        let name = self.file.name;
        let mut response =
            self.file.response(&self.headers, name, media_type(name), CACHE_IMMUTABLE);
        let nosniff = HeaderValue::from_static("nosniff");
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        response
    }
}

fn media_type(name: &str) -> HeaderValue {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    HeaderValue::from_static(match extension {
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    })
}

impl DescribeRequest for HeaderMap {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl DescribeResponse for FileResponse {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        for media in ["text/javascript", "text/css", "image/svg+xml", "font/woff2", "image/png"] {
            operation.response_of(200, media);
        }
        operation.empty_response(304);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_web_interface_are_pages() {
        for path in ["/", "/login", "/setup", "/project/1/insights", "/project", "/instance/status"]
        {
            assert!(is_page(path), "{path}");
        }
        for path in
            ["", "//", "//login", "/e", "/flag", "/projects", "/loginx", "/api", "/assets/x"]
        {
            assert!(!is_page(path), "{path}");
        }
    }

    #[test]
    fn page_is_for_clients_that_name_html() {
        let accepts = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            accepts_html(&headers)
        };
        assert!(accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(accepts("application/json, Text/HTML;q=0.5"));
        for other in ["*/*", "application/json", "text/*", "text/html;q=0", ""] {
            assert!(!accepts(other), "{other}");
        }
        assert!(!accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn theme_comes_from_a_cookie_and_nothing_else_enters_the_page() {
        for (cookie, expected) in [
            ("hedgerow_theme=dark", "dark"),
            ("a=b; hedgerow_theme=light", "light"),
            ("hedgerow_theme=\"><script>", "system"),
            ("", "system"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
            assert_eq!(theme(&headers), expected, "{cookie}");
        }
    }

    #[test]
    fn files_of_shared_pages_are_embedded() {
        if let Some(SharedFiles { script, style }) = shared_files() {
            assert!(script.ends_with(".js") && style.ends_with(".css"), "{script} {style}");
            assert!([script, style].iter().all(|name| EmbeddedFile::find(FILES, name).is_some()));
        }
    }

    #[test]
    fn page_has_the_placeholders_that_are_replaced() {
        for page in [Some(NOT_BUILT), PAGE].into_iter().flatten() {
            assert!(page.contains(NONCE) && page.contains(THEME));
        }
    }
}
