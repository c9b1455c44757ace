//! Extractors for path and query parameters.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use model::Timestamp;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::http::body::max_chars;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{AppState, Error, Result};

/// The path's `{id}` as an integer; 404 if it is none.
pub struct Id(pub i64);

/// The path's `{id}` as a string.
pub struct StringId(pub String);

/// The path's `{uuid}`; 404 if it is not a uuid.
pub struct UuidParam(pub Uuid);

/// The path's `{id}` as a uuid; 404 if it is none.
pub struct IdAsUuid(pub Uuid);

/// Known query parameters. Unknown ones are ignored; of repeated ones the last wins.
pub struct Query<T>(pub T);

/// Whether the request is a PUT, which enforces required fields, rather than a PATCH.
pub struct IsPut(pub bool);

async fn parameter(parts: &mut Parts, name: &str) -> Result<String> {
    let Path(mut parameters) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
        .await
        .map_err(|_| Error::not_found())?;
    // PostgreSQL rejects U+0000 even in a bound parameter.
    parameters.remove(name).filter(|text| !text.contains('\0')).ok_or_else(Error::not_found)
}

/// Bounds the work of a substring search in the database.
pub const SEARCH_CHARS_MAX: usize = 400;

/// A query parameter; an empty one counts as absent.
pub fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// The error for U+0000, which PostgreSQL cannot store.
pub fn nul(attr: &str) -> Error {
    Error::invalid(attr, "invalid_input", "Null characters are not allowed.")
}

/// Parses a timestamp.
pub fn instant(attr: &str, text: Option<&String>) -> Result<Option<Timestamp>> {
    let Some(text) = given(text) else { return Ok(None) };
    let at = Timestamp::parse(text).ok_or_else(|| {
        let detail = "Datetime has wrong format. Use ISO 8601, as in 2024-03-01T10:00:00Z.";
        Error::invalid(attr, "invalid_input", detail)
    })?;
    Ok(Some(at))
}

/// The last value of a query parameter.
pub(crate) fn query_parameter(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key == name)
        .last()
        // PostgreSQL rejects U+0000 even in a bound parameter.
        .map(|(_, value)| value.replace('\0', "\u{fffd}"))
}

/// The `search` parameter.
pub fn search(text: Option<&String>) -> Result<Option<String>> {
    let Some(text) = given(text) else { return Ok(None) };
    max_chars("search", text, SEARCH_CHARS_MAX)?;
    Ok(Some(text.to_owned()))
}

/// Parses a boolean.
pub fn switch(attr: &'static str, text: Option<&String>) -> Result<Option<bool>> {
    match given(text).map(str::to_ascii_lowercase).as_deref() {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(Error::invalid(attr, "invalid_input", "Must be a valid boolean.")),
    }
}

/// Names in one list parameter; each becomes a bind parameter.
const NAMES_MAX: usize = 1_000;

/// Parses a JSON object.
pub fn object(attr: &str, text: Option<&String>) -> Result<Option<Map<String, Value>>> {
    let Some(text) = given(text) else { return Ok(None) };
    let refused = || Error::invalid(attr, "invalid_input", "Expected a JSON object.");
    serde_json::from_str(text).map_err(|_| refused()).map(Some)
}

/// Parses a JSON array of strings.
pub fn names(attr: &str, text: Option<&String>) -> Result<Vec<String>> {
    let Some(text) = given(text) else { return Ok(Vec::new()) };
    let names: Vec<String> = serde_json::from_str(text).map_err(|_| {
        Error::invalid(attr, "invalid_input", "It must be a JSON array of strings.")
    })?;
    if names.len() > NAMES_MAX {
        let detail = format!("Ensure this field has no more than {NAMES_MAX} elements.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    if names.iter().any(|name| name.contains('\0')) {
        return Err(nul(attr));
    }
    Ok(names)
}

impl FromRequestParts<AppState> for IdAsUuid {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let text = parameter(parts, "id").await?;
        Uuid::parse_str(&text).map(Self).map_err(|_| Error::not_found())
    }
}

impl FromRequestParts<AppState> for Id {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let text = parameter(parts, "id").await?;
        text.parse().map(Self).map_err(|_| Error::not_found())
    }
}

impl FromRequestParts<AppState> for StringId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        parameter(parts, "id").await.map(Self)
    }
}

impl FromRequestParts<AppState> for UuidParam {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let text = parameter(parts, "uuid").await?;
        Uuid::parse_str(&text).map(Self).map_err(|_| Error::not_found())
    }
}

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let sent = parts.uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(sent.as_bytes());
        if let Some((name, _)) = pairs.find(|(_, value)| value.contains('\0')) {
            return Err(nul(&name));
        }
        let last: BTreeMap<_, _> = form_urlencoded::parse(sent.as_bytes()).collect();
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(last).finish();
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|why| {
            match why.path().to_string().as_str() {
                "." => Error::bad_request(why.inner().to_string()),
                name => Error::invalid(name, "invalid_input", why.inner().to_string()),
            }
        })
    }
}

impl FromRequestParts<AppState> for IsPut {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        Ok(Self(parts.method == axum::http::Method::PUT))
    }
}

impl<T> Deref for Query<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl DescribeRequest for Id {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("id", json!({ "type": "integer" }));
    }
}

impl DescribeRequest for IdAsUuid {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("id", json!({ "type": "string", "format": "uuid" }));
    }
}

impl DescribeRequest for StringId {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("id", json!({ "type": "string" }));
    }
}

impl DescribeRequest for UuidParam {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("uuid", json!({ "type": "string", "format": "uuid" }));
    }
}

impl<T: JsonSchema> DescribeRequest for Query<T> {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.query::<T>();
    }
}

impl DescribeRequest for IsPut {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}
