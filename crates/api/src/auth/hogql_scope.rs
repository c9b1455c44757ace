//! Detects HogQL in a request, which takes the scope `query:read`.
//!
//! HogQL stored in an insight, a cohort, an action or a dashboard's filters reads whatever a query
//! reads. So a key needs `query:read` to send some, in addition to the object's scope. The caller
//! extractors check this for every endpoint.

use std::borrow::Cow;

use axum::http::request::Parts;
use serde_json::Value;

use crate::http::body::{RequestBody, received};

/// Query kinds made of HogQL statements or expressions, or that list what these list.
const KINDS: [&str; 10] = [
    "HogQLQuery",
    "EventsQuery",
    "ActorsQuery",
    "GroupsQuery",
    "SessionsQuery",
    "DataWarehouseNode",
    // These answer with whole events, persons or values of properties.
    "SessionsTimelineQuery",
    "InsightActorsQuery",
    "FunnelsActorsQuery",
    "FunnelCorrelationQuery",
];
const HOGQL: &str = "hogql";

/// Whether the body or the query string contains HogQL.
pub(crate) fn contains_hogql(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let in_query = form_urlencoded::parse(query.as_bytes()).any(
        |(name, text): (Cow<'_, str>, Cow<'_, str>)| {
            field_contains_hogql(&name, &Value::String(text.into()))
        },
    );
    in_query || in_body(parts)
}

fn in_body(parts: &Parts) -> bool {
    let received = received(parts);
    let RequestBody::Complete(bytes) = &*received else { return false };
    // A handler rejects a body that is not JSON, or checks it itself: cohorts take forms.
    serde_json::from_slice(bytes).is_ok_and(|sent: Value| value_contains_hogql(&sent))
}

/// Whether a value contains HogQL at any depth; the JSON parser bounds the depth.
pub(crate) fn value_contains_hogql(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| field_contains_hogql(name, value))
        }
        Value::Array(items) => items.iter().any(value_contains_hogql),
        Value::String(text) => string_contains_hogql(text),
        _ => false,
    }
}

/// Old clients send lists of filters as JSON within a string.
fn string_contains_hogql(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['[', '{'])
        && may_contain_hogql(text)
        && serde_json::from_str(text).is_ok_and(|sent: Value| value_contains_hogql(&sent))
}

fn field_contains_hogql(name: &str, value: &Value) -> bool {
    let is_set = || match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Null | Value::Bool(false) => false,
        _ => true,
    };
    match value {
        Value::String(text) if name.eq_ignore_ascii_case("kind") => KINDS.contains(&text.as_str()),
        // `type`, `breakdown_type` and `math` say what a filter, breakdown or aggregation is.
        Value::String(text)
            if text.eq_ignore_ascii_case(HOGQL)
                && (name.ends_with("type") || name.ends_with("Type") || name == "math") =>
        {
            true
        }
        _ => (mentions_hogql(name) && is_set()) || value_contains_hogql(value),
    }
}

fn mentions_hogql(name: &str) -> bool {
    name.to_ascii_lowercase().contains(HOGQL)
}

/// A substring search that avoids parsing strings without HogQL. A backslash may start an escaped
/// letter, so it counts as a possible mention.
fn may_contain_hogql(text: &str) -> bool {
    text.contains('\\') || mentions_hogql(text) || KINDS.iter().any(|kind| text.contains(kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hogql_is_detected_in_every_field_that_is_evaluated() {
        for (sent, expected) in [
            (json!({ "query": { "kind": "HogQLQuery", "query": "SELECT 1" } }), true),
            (
                json!({ "query": { "kind": "DataTableNode", "source": { "kind": "EventsQuery" } } }),
                true,
            ),
            (
                json!({ "query": { "source": { "series": [{ "math": "hogql", "math_hogql": "sum(1)" }] } } }),
                true,
            ),
            (json!({ "properties": [{ "type": "hogql", "key": "1 = 1" }] }), true),
            (json!({ "filters": { "breakdown_type": "hogql", "breakdown": "event" } }), true),
            (json!({ "query": { "breakdownFilter": { "breakdown_type": "hogql" } } }), true),
            (json!({ "query": { "pathsFilter": { "pathsHogQLExpression": "event" } } }), true),
            (json!({ "filters": { "events": "[{\"math_hogql\": \"sum(1)\"}]" } }), true),
            (json!({ "properties": r#"[{"type": "hog\u0071l", "key": "1"}]"# }), true),
            (json!({ "query": r#"{"kind": "\u0048ogQLQuery"}"# }), true),
            (json!({ "properties": " \n[{\"type\": \"hogql\", \"key\": \"1\"}]" }), true),
            (json!({ "properties": r#"[{"type": "p\u0065rson", "key": "1"}]"# }), false),
            (json!({ "query": { "funnelsFilter": { "funnelAggregateByHogQL": null } } }), false),
            (json!({ "query": { "kind": "TrendsQuery", "series": [] } }), false),
            (
                json!({ "name": "HogQL", "tags": ["hogql"], "description": "kind of HogQLQuery" }),
                false,
            ),
            (
                json!({ "properties": [{ "type": "person", "key": "kind", "value": "hogql" }] }),
                false,
            ),
        ] {
            assert_eq!(value_contains_hogql(&sent), expected, "{sent}");
        }
    }
}
