//! Pagination, links to other pages, and the standard response types.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use model::{LIMIT_DEFAULT, LIMIT_MAX, Window};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::json;

use crate::http::normalize::SentUri;
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::{AppState, Error, Result};

/// `limit` and `offset` of a request, and its URL.
pub struct Page {
    pub window: Window,
    url: RequestUrl,
}

/// The request's URL, from which links to other pages are built.
pub struct RequestUrl {
    origin: String,
    path: String,
    parameters: Vec<(String, String)>,
}

/// The standard envelope of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Listing")]
pub struct Listing<T> {
    pub count: i64,
    pub next: Option<String>,
    pub previous: Option<String>,
    pub results: Vec<T>,
}

impl Page {
    pub fn listing<T>(&self, results: Vec<T>, count: i64) -> Listing<T> {
        let Window { limit, offset } = self.window;
        let after = offset.saturating_add(limit);
        let next = (after < count).then(|| self.link(Some(after)));
        let previous = (offset > 0).then(|| self.link((offset > limit).then(|| offset - limit)));
        Listing { count, next, previous, results }
    }

    /// Rejects a bad `limit` or `offset`, which most lists ignore.
    pub fn refuse_bad_window(&self) -> Result<()> {
        for (name, least) in [("limit", 1), ("offset", 0)] {
            let sent = self.url.values(name).last();
            let fits = |text: &str| text.parse::<i64>().is_ok_and(|number| number >= least);
            if sent.is_some_and(|text| !text.is_empty() && !fits(text)) {
                let detail = format!("Ensure this value is an integer of at least {least}.");
                return Err(Error::invalid(name, "invalid_input", detail));
            }
        }
        Ok(())
    }

    fn link(&self, offset: Option<i64>) -> String {
        let offset = offset.map(|offset| offset.to_string());
        self.url
            .link(&[("limit", Some(&self.window.limit.to_string())), ("offset", offset.as_deref())])
    }
}

impl RequestUrl {
    pub fn of(parts: &Parts) -> Self {
        let sent = parts.extensions.get::<SentUri>().map_or(&parts.uri, |sent| &sent.0);
        Self { origin: origin(parts, sent), path: sent.path().to_owned(), parameters: pairs(sent) }
    }

    /// Every value of a parameter, in the order sent.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Parameters whose names begin with `prefix`, which is stripped.
    pub fn prefixed(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.parameters
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// The last value of a parameter; none if it is empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last().filter(|value| !value.is_empty())
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.value(name)?.parse().ok()
    }

    /// Falls back to the default for a bad `limit` or `offset`.
    fn window(&self) -> Window {
        let limit = self.number("limit").filter(|limit| *limit > 0).unwrap_or(LIMIT_DEFAULT);
        Window {
            limit: limit.min(LIMIT_MAX),
            offset: self.number("offset").filter(|offset| *offset >= 0).unwrap_or(0),
        }
    }

    /// The URL with some parameters replaced, or removed if their value is none. Sorted by name, so
    /// that equal requests have equal links.
    pub fn link(&self, changes: &[(&str, Option<&str>)]) -> String {
        let is_unchanged = |name: &str| !changes.iter().any(|(changed, _)| *changed == name);
        let mut parameters: Vec<(&str, &str)> = self
            .parameters
            .iter()
            .filter(|(name, _)| is_unchanged(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        parameters.extend(changes.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
        parameters.sort_by_key(|(name, _)| *name);
        let query =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        match query.as_str() {
            "" => format!("{}{}", self.origin, self.path),
            query => format!("{}{}?{query}", self.origin, self.path),
        }
    }
}

fn pairs(uri: &Uri) -> Vec<(String, String)> {
    let query = uri.query().unwrap_or("");
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The origin that the client used, which a proxy passes in `X-Forwarded-*`.
fn origin(parts: &Parts, uri: &Uri) -> String {
    let first = |name: &str| {
        let text = parts.headers.get(name)?.to_str().ok()?;
        Some(text.split(',').next()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let scheme = first("x-forwarded-proto")
        .filter(|scheme| scheme == "http" || scheme == "https")
        .unwrap_or_else(|| "http".into());
    let host = first("x-forwarded-host")
        .or_else(|| first(header::HOST.as_str()))
        .or_else(|| uri.authority().map(ToString::to_string))
        .unwrap_or_else(|| "localhost".into());
    format!("{scheme}://{host}")
}

impl FromRequestParts<AppState> for Page {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        Ok(Self { window: url.window(), url })
    }
}

impl DescribeRequest for Page {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let number = |minimum: i64| json!({ "type": "integer", "minimum": minimum });
        operation.query_parameter("limit", number(1));
        operation.query_parameter("offset", number(0));
    }
}

impl FromRequestParts<AppState> for RequestUrl {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        Ok(Self::of(parts))
    }
}

impl DescribeRequest for RequestUrl {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

/// 200 with a JSON body.
pub struct Json<T>(pub T);
/// 201 with the new object.
pub struct Created<T>(pub T);
/// 204 without a body.
pub struct NoContent;
/// 405 without a body, for objects that are only soft-deleted, by PATCH.
pub struct SoftDeleteOnly;

impl<T: Serialize> IntoResponse for Listing<T> {
    fn into_response(self) -> Response {
        axum::Json(self).into_response()
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, axum::Json(self.0)).into_response()
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl IntoResponse for SoftDeleteOnly {
    fn into_response(self) -> Response {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    }
}

impl<T: JsonSchema> DescribeResponse for Listing<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<Self>(200, schemas);
    }
}

impl<T: JsonSchema> DescribeResponse for Json<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(200, schemas);
    }
}

impl<T: JsonSchema> DescribeResponse for Created<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(201, schemas);
    }
}

impl DescribeResponse for NoContent {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.empty_response(204);
    }
}

impl DescribeResponse for SoftDeleteOnly {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.empty_response(405);
    }
}

impl<T: DescribeResponse> DescribeResponse for Result<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        T::describe_response(operation, schemas);
        operation.response_default::<crate::http::error::ErrorBody>(schemas);
    }
}
