//! Static files of the browser SDK.
//!
//! The SDK loads further scripts from a path with its version, and falls back to one without. The
//! server has one version and serves it under both.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use schemars::SchemaGenerator;

use crate::http::embedded_file::{CACHE_IMMUTABLE, EmbeddedFile};
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::public_error::PublicError;
use crate::{AppState, Routes};

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

pub(crate) const JAVASCRIPT: HeaderValue =
    HeaderValue::from_static("application/javascript; charset=utf-8");
const CACHE_FIVE_MINUTES: HeaderValue = HeaderValue::from_static("public, max-age=300");

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

fn find(name: &str) -> Result<&'static EmbeddedFile, PublicError> {
    if SCRIPTS.is_empty() {
        return Err(PublicError::not_found(
            "This build has no browser SDK. Run tools/fetch-assets and build again.",
        ));
    }
    EmbeddedFile::find(SCRIPTS, name)
        .ok_or_else(|| PublicError::not_found("There is no such script."))
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
    script: &'static EmbeddedFile,
    cache: HeaderValue,
    headers: HeaderMap,
}

impl IntoResponse for ScriptResponse {
    fn into_response(self) -> Response {
        self.script.response(&self.headers, VERSION, JAVASCRIPT, self.cache)
    }
}

impl DescribeResponse for ScriptResponse {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "application/javascript");
        operation.empty_response(304);
    }
}
