//! Typed request bodies. A body is validated only after the caller is authorized and the object is
//! loaded.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use catalog::{Deleted, TAG_CHARS_MAX, TAGS_MAX, normalize_tags};
use model::{SettingsChange, SettingsSchema, json_type_name};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::openapi::{DescribeRequest, Operation};
use crate::{AppState, Error, Result};

/// The body as received, in the request's extensions, so that extractors can use it in any order.
#[derive(Clone)]
pub(crate) enum RequestBody {
    Complete(Bytes),
    TooLarge {
        limit_bytes: usize,
    },
    /// The client closed the connection early.
    Truncated,
}

/// A body that the handler parses after it has loaded its object.
pub struct Body<T> {
    received: Arc<RequestBody>,
    content_type: Option<String>,
    expects: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Body<T> {
    /// Parses the body as `T`; unknown fields are ignored.
    pub fn read(&self) -> Result<T> {
        typed(&self.value()?)
    }
}

impl<T: DeserializeOwned> Body<Vec<T>> {
    /// A body that is a list.
    pub fn read_list(&self) -> Result<Vec<T>> {
        let sent = self.sent()?;
        if !sent.is_array() {
            let detail =
                format!("Expected a list of items but got type \"{}\".", json_type_name(&sent));
            return Err(Error::bad_request(detail));
        }
        typed(&sent)
    }
}

impl<T> Body<T> {
    /// The JSON object as sent. An empty body counts as `{}`.
    pub fn value(&self) -> Result<Value> {
        let value = self.sent()?;
        if !value.is_object() {
            return Err(Error::bad_request(format!(
                "Invalid data. Expected a dictionary, but got {}.",
                json_type_name(&value)
            )));
        }
        Ok(value)
    }

    fn sent(&self) -> Result<Value> {
        let bytes = match &*self.received {
            RequestBody::Complete(bytes) => bytes,
            RequestBody::TooLarge { limit_bytes } => return Err(Error::too_large(*limit_bytes)),
            RequestBody::Truncated => return Err(Error::parse("The request body ended early.")),
        };
        if bytes.is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        if let Some(given) = &self.content_type
            && !is_json(given)
        {
            return Err(Error::unsupported_media_type(given));
        }
        check_values(serde_json::from_slice(bytes).map_err(|why| parse_error(bytes, &why))?)
    }

    /// The verbatim JSON of a nested member.
    pub fn raw(&self, path: &[&str]) -> Option<&RawValue> {
        let RequestBody::Complete(bytes) = &*self.received else { return None };
        let mut part: &RawValue = serde_json::from_slice(bytes).ok()?;
        for name in path {
            let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(part.get()).ok()?;
            part = fields.remove(*name)?;
        }
        Some(part)
    }

    /// Includes deleted objects in the lookup if the body restores one (`deleted: false`). Other
    /// errors of the body are reported after the lookup.
    pub fn among(&self) -> Deleted {
        let restores = self
            .value()
            .is_ok_and(|value| value.get("deleted").and_then(parse_lenient_bool) == Some(false));
        if restores { Deleted::Include } else { Deleted::Exclude }
    }
}

/// A body with two sets of fields: those shared between operations, and the operation's own.
pub struct Both<A, B> {
    expects: PhantomData<fn() -> (A, B)>,
}

impl<A: DeserializeOwned, B: DeserializeOwned> Body<Both<A, B>> {
    pub fn read_both(&self) -> Result<(A, B)> {
        let sent = self.value()?;
        Ok((typed(&sent)?, typed(&sent)?))
    }
}

impl<A: JsonSchema, B: JsonSchema> JsonSchema for Both<A, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}And{}", A::schema_name(), B::schema_name()).into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let parts = [schemas.subschema_for::<A>(), schemas.subschema_for::<B>()];
        schemars::json_schema!({ "allOf": parts })
    }
}

/// A body with named fields and with settings, which are stored in a table of their own.
pub struct WithSettings<T, K> {
    pub fields: T,
    /// The settings that were sent.
    pub settings: SettingsChange<K>,
}

impl<T: DeserializeOwned, K: SettingsSchema> Body<WithSettings<T, K>> {
    pub fn read_with_settings(&self) -> Result<WithSettings<T, K>> {
        let sent = self.value()?;
        let fields = typed(&sent)?;
        let settings = match &sent {
            Value::Object(sent) => SettingsChange::read(sent)?,
            _ => SettingsChange::default(),
        };
        Ok(WithSettings { fields, settings })
    }
}

impl<T: JsonSchema, K: SettingsSchema> JsonSchema for WithSettings<T, K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}With{}", T::schema_name(), K::NAME).into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let parts = [schemas.subschema_for::<T>(), schemas.subschema_for::<SettingsChange<K>>()];
        schemars::json_schema!({ "allOf": parts })
    }
}

pub(crate) fn typed<T: DeserializeOwned>(sent: &Value) -> Result<T> {
    Ok(model::deserialize_strict(sent)?)
}

impl<T: Send> FromRequestParts<AppState> for Body<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        Ok(Self {
            received: received(parts),
            content_type: content_type(&parts.headers),
            expects: PhantomData,
        })
    }
}

impl<T: JsonSchema> DescribeRequest for Body<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<T>(schemas);
    }
}

pub(crate) fn received(parts: &Parts) -> Arc<RequestBody> {
    parts
        .extensions
        .get::<Arc<RequestBody>>()
        .cloned()
        .unwrap_or_else(|| Arc::new(RequestBody::Complete(Bytes::new())))
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("").to_owned())
}

pub(crate) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

/// An uploaded form.
pub(crate) fn is_multipart(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or("").trim();
    media.eq_ignore_ascii_case("multipart/form-data")
}

/// Below serde_json's recursion limit of 128: stored parts of a body are wrapped in other objects
/// before they are parsed again.
const DEPTH_MAX: usize = 100;
const TOO_DEEP: &str = "Nested deeper than 100 levels.";

/// The error for a body that does not parse. Names the field that is nested too deeply.
fn parse_error(bytes: &[u8], why: &serde_json::Error) -> Error {
    if !is_too_deep(why) {
        return Error::parse(format!("JSON parse error - {why}"));
    }
    // Raw values parse at any depth.
    let Ok(fields) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(bytes) else {
        return Error::parse(TOO_DEEP);
    };
    let is_deep = |field: &RawValue| {
        serde_json::from_str::<Value>(field.get()).is_err_and(|why| is_too_deep(&why))
    };
    let attr = fields.into_iter().find(|(_, field)| is_deep(field)).map(|(name, _)| name);
    too_deep(attr)
}

/// serde_json exposes no error code for this.
fn is_too_deep(why: &serde_json::Error) -> bool {
    why.to_string().starts_with("recursion limit exceeded")
}

fn too_deep(attr: Option<String>) -> Error {
    match attr {
        None => Error::bad_request(TOO_DEEP),
        Some(attr) => Error::invalid(attr, "invalid_input", TOO_DEEP),
    }
}

/// One step of the path to a nested value.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'a str),
    Item(usize),
}

/// Rejects values that are nested too deeply or contain U+0000.
pub(crate) fn check_values(sent: Value) -> Result<Value> {
    let mut path = Vec::new();
    let Some(problem) = first_invalid(&sent, &mut path) else { return Ok(sent) };
    let mut names = path.iter().map(|step| match step {
        PathStep::Field(name) => (*name).to_owned(),
        PathStep::Item(index) => index.to_string(),
    });
    if let InvalidValue::TooDeep = problem {
        // The full path would have more than a hundred steps.
        return Err(too_deep(names.next()));
    }
    let (detail, names) = ("Null characters are not allowed.", names.collect::<Vec<_>>());
    Err(match names.is_empty() {
        true => Error::bad_request(detail),
        false => Error::invalid(names.join("__"), "invalid_input", detail),
    })
}

enum InvalidValue {
    /// PostgreSQL cannot store U+0000 in a string.
    Nul,
    TooDeep,
}

/// The first problem, with the path to it left in `path`.
fn first_invalid<'a>(value: &'a Value, path: &mut Vec<PathStep<'a>>) -> Option<InvalidValue> {
    let is_deep = path.len() >= DEPTH_MAX;
    let has_nul = |text: &str| text.contains('\0').then_some(InvalidValue::Nul);
    let mut below = |step, value| {
        path.push(step);
        let problem = first_invalid(value, path);
        if problem.is_none() {
            path.pop();
        }
        problem
    };
    match value {
        Value::String(text) => has_nul(text),
        Value::Array(_) | Value::Object(_) if is_deep => Some(InvalidValue::TooDeep),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| below(PathStep::Item(index), item))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            has_nul(name).or_else(|| below(PathStep::Field(name), value))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A field of a partial update: absent, null or given.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Patch<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<T> Patch<T> {
    /// For a nullable field: none if it is absent.
    pub fn nullable(self) -> Option<Option<T>> {
        match self {
            Self::Absent => None,
            Self::Null => Some(None),
            Self::Value(value) => Some(Some(value)),
        }
    }
}

impl<T> Patch<T> {
    /// For a field of a new object, where null and absent are the same.
    pub fn given(self) -> Option<T> {
        self.nullable().flatten()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(schemas)
    }
}

/// Deserializes a field that must not be null: `Option` alone would read null as absent.
pub fn present<'de, D, T>(deserializer: D) -> std::result::Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Accepts `true`, `"true"`, `1` and their opposites, all of which old clients send.
pub fn lenient_bool<'de, D>(deserializer: D) -> std::result::Result<Option<bool>, D::Error>
where
    D: Deserializer<'de>,
{
    let read = parse_lenient_bool(&Value::deserialize(deserializer)?);
    read.map(Some).ok_or_else(|| serde::de::Error::custom("invalid type: expected a boolean"))
}

fn parse_lenient_bool(value: &Value) -> Option<bool> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_ascii_lowercase);
    match text.as_str() {
        "true" | "1" | "t" | "yes" | "on" => Some(true),
        "false" | "0" | "f" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Bounds the length in characters.
pub fn max_chars(attr: &str, text: &str, max: usize) -> Result<()> {
    if text.chars().count() > max {
        let detail = format!("Ensure this field has no more than {max} characters.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(())
}

/// Bounds the size of a value that is stored verbatim, as JSON.
pub fn max_bytes(attr: &str, sent: &impl serde::Serialize, max: usize) -> Result<()> {
    if serde_json::to_string(sent).map_or(usize::MAX, |text| text.len()) > max {
        let detail = format!("Ensure this field has no more than {max} bytes.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(())
}

pub fn not_blank(attr: &str, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid(attr, "blank", "This field may not be blank."));
    }
    Ok(())
}

/// Normalizes tags and bounds their length and number.
pub fn tags(sent: &[String]) -> Result<Vec<String>> {
    for (index, tag) in sent.iter().enumerate() {
        max_chars(&format!("tags__{index}"), tag, TAG_CHARS_MAX)?;
    }
    let tags = normalize_tags(sent);
    if tags.len() > TAGS_MAX {
        let detail = format!("Ensure this field has no more than {TAGS_MAX} elements.");
        return Err(Error::invalid("tags", "max_length", detail));
    }
    Ok(tags)
}
