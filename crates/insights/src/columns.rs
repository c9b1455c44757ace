//! Dictionary-coded columns: what a stored value means to aggregations, a string interner that
//! threads share, and per-entry memoization.

pub(crate) mod interner;
pub(crate) mod memo;

use serde_json::Value as Json;
use warehouse::{Column, Value};

/// Columns of a batch of events, as expressions and breakdowns read them.
#[derive(Clone, Copy)]
pub(crate) struct EventColumns<'a> {
    /// Timestamps in microseconds.
    pub times: &'a [i64],
    pub distinct_nos: &'a [u32],
    /// One for each key that the reader asked for.
    pub columns: &'a [Column],
}

/// The string by which a value is counted and broken down. Null and the empty string are absent.
pub(crate) fn text(value: Value<'_>) -> Option<&str> {
    match value {
        Value::Null | Value::Text("") => None,
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        Value::Number(text) | Value::Text(text) | Value::Json(text) => Some(text),
    }
}

/// The number of a value that is one or parses as one.
pub(crate) fn number(value: Value<'_>) -> Option<f64> {
    let text = match value {
        Value::Number(text) | Value::Text(text) => text,
        _ => return None,
    };
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Converts a property of a group to the value it would have on an event.
pub(crate) fn with_group_property<T>(
    json: Option<&Json>,
    each: impl FnOnce(Option<Value<'_>>) -> T,
) -> T {
    match json {
        None | Some(Json::Null) => each(None),
        Some(Json::Bool(truth)) => each(Some(Value::Bool(*truth))),
        Some(Json::String(text)) => each(Some(Value::Text(text))),
        Some(Json::Number(number)) => each(Some(Value::Number(&number.to_string()))),
        Some(other) => each(Some(Value::Json(&other.to_string()))),
    }
}
