//! Static files of the browser SDK.
//!
//! The SDK loads further scripts from a path with its version, and falls back to one without. The
//! server has one version and serves it under both.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::SchemaGenerator;

use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::public_error::PublicError;
use crate::http::response_budget::SharedBytes;
use crate::{AppState, Routes};

struct Script {
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    brotli: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

pub(crate) const JAVASCRIPT: HeaderValue =
    HeaderValue::from_static("application/javascript; charset=utf-8");
const CACHE_FIVE_MINUTES: HeaderValue = HeaderValue::from_static("public, max-age=300");
const CACHE_IMMUTABLE: HeaderValue =
    HeaderValue::from_static("public, max-age=31536000, immutable");

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/static/{name}", current).get("/static/{version}/{name}", versioned)
}

async fn current(request: ScriptRequest) -> Result<ScriptResponse, PublicError> {
    serve(request, CACHE_FIVE_MINUTES)
}

async fn versioned(request: ScriptRequest) -> Result<ScriptResponse, PublicError> {
    // Another version's path gets this version's file, which must not be cached as immutable.
    let is_current = request.version.as_deref() == Some(VERSION);
    serve(request, if is_current { CACHE_IMMUTABLE } else { CACHE_FIVE_MINUTES })
}

fn serve(request: ScriptRequest, cache: HeaderValue) -> Result<ScriptResponse, PublicError> {
    let script = find(&request.name)?;
    Ok(ScriptResponse { script, cache, headers: request.headers })
}

fn find(name: &str) -> Result<&'static Script, PublicError> {
    if SCRIPTS.is_empty() {
        return Err(PublicError::not_found(
            "This build has no browser SDK. Run tools/fetch-assets and build again.",
        ));
    }
    match SCRIPTS.binary_search_by_key(&name, |script| script.name) {
        Ok(index) => Ok(&SCRIPTS[index]),
        Err(_) => Err(PublicError::not_found("There is no such script.")),
    }
}

/// The SDK's main script, uncompressed, for responses that prepend to it.
pub(crate) fn sdk() -> Result<&'static [u8], PublicError> {
    Ok(find("array.js")?.plain)
}

struct ScriptRequest {
    version: Option<String>,
    name: String,
    headers: HeaderMap,
}

impl FromRequestParts<AppState> for ScriptRequest {
    type Rejection = PublicError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, PublicError> {
        let parameters = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|_| PublicError::not_found("There is no such script."))?;
        let named = |wanted: &str| {
            parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
        };
        let (version, name) = (named("version"), named("name").unwrap_or_default());
        Ok(Self { version, name, headers: parts.headers.clone() })
    }
}

impl DescribeRequest for ScriptRequest {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

struct ScriptResponse {
    script: &'static Script,
    cache: HeaderValue,
    headers: HeaderMap,
}

impl IntoResponse for ScriptResponse {
    fn into_response(self) -> Response {
        let tag = format!("W/\"{VERSION}\"");
        let known = self.headers.get(header::IF_NONE_MATCH);
        let unchanged = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut response = match unchanged {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.body(),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, self.cache);
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

impl ScriptResponse {
    fn body(&self) -> Response {
        let (encoding, bytes) = if accepts(&self.headers, "br") {
            (Some("br"), self.script.brotli)
        } else if accepts(&self.headers, "gzip") {
            (Some("gzip"), self.script.gzip)
        } else {
            (None, self.script.plain)
        };
        let mut response = Response::new(Body::from(Bytes::from_static(bytes)));
        response.headers_mut().insert(header::CONTENT_TYPE, JAVASCRIPT);
        response.extensions_mut().insert(SharedBytes);
        if let Some(encoding) = encoding {
            let encoding = HeaderValue::from_static(encoding);
            response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
        }
        response
    }
}

fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let given = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    given.into_iter().flat_map(|value| value.split(',')).any(|entry| {
        let (name, quality) = entry.split_once(';').unwrap_or((entry, ""));
        let refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case(coding) && !refused
    })
}

impl DescribeResponse for ScriptResponse {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "application/javascript");
        operation.empty_response(304);
    }
}
