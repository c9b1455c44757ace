//! Recognizes an object here that an earlier, interrupted copy created without noting it down.

use model::Timestamp;
use serde_json::{Map, Value};

use crate::bodies::title;
use crate::kind::Kind;

/// Fields that the server normalizes or that do not tell objects apart.
const NOT_COMPARED: [&str; 4] = ["created_at", "pinned_at", "archived", "dashboards"];

/// How sure the copy is that it has created an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A request to create it was sent, and its answer was lost.
    Sent,
    /// Nothing is known, so everything must be equal.
    Unknown,
}

/// Whether `found` is what a request with `body` would create.
pub fn is_twin(kind: Kind, body: &Map<String, Value>, found: &Value, expected: Expected) -> bool {
    match expected {
        _ if !is_namesake(kind, body, found) => false,
        Expected::Sent => is_same_kind(kind, body, found),
        Expected::Unknown => body
            .iter()
            .filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()))
            .all(|(name, value)| is_contained(value, found.get(name).unwrap_or(&Value::Null))),
    }
}

pub fn is_namesake(kind: Kind, body: &Map<String, Value>, found: &Value) -> bool {
    title(kind, &Value::Object(body.clone())) == title(kind, found)
}

/// What a name alone does not tell apart.
fn is_same_kind(kind: Kind, body: &Map<String, Value>, found: &Value) -> bool {
    let same = |name: &str| {
        is_contained(
            body.get(name).unwrap_or(&Value::Null),
            found.get(name).unwrap_or(&Value::Null),
        )
    };
    match kind {
        Kind::Cohort => same("is_static"),
        Kind::Annotation => same("date_marker") && same("scope"),
        Kind::Insight => same("query") || body.contains_key("filters"),
        _ => true,
    }
}

/// Whether `found` has all that `sent` says. The server adds defaults, so absent, null, false and empty
/// are equal.
fn is_contained(sent: &Value, found: &Value) -> bool {
    match (sent, found) {
        (Value::Object(sent), Value::Object(found)) => sent
            .iter()
            .all(|(name, value)| is_contained(value, found.get(name).unwrap_or(&Value::Null))),
        (Value::Array(sent), Value::Array(found)) if sent.len() == found.len() => {
            let in_order = sent.iter().zip(found).all(|(one, other)| is_contained(one, other));
            in_order || is_same_set(sent, found)
        }
        (Value::Number(sent), Value::Number(found)) => sent.as_f64() == found.as_f64(),
        (Value::String(sent), Value::String(found)) => {
            sent == found
                || Timestamp::parse(sent).is_some_and(|at| Timestamp::parse(found) == Some(at))
        }
        _ => sent == found || (is_default(sent) && is_default(found)),
    }
}

/// Tags are sorted and in lower case.
fn is_same_set(sent: &[Value], found: &[Value]) -> bool {
    let words = |list: &[Value]| -> Option<Vec<String>> {
        let mut words: Vec<String> = list
            .iter()
            .map(|item| Some(item.as_str()?.trim().to_lowercase()))
            .collect::<Option<_>>()?;
        words.sort();
        Some(words)
    };
    words(sent).is_some_and(|sent| words(found) == Some(sent))
}

pub fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_default),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_equal(kind: Kind, body: Value, found: Value, expected: Expected) -> bool {
        is_twin(kind, body.as_object().unwrap(), &found, expected)
    }

    #[test]
    fn defaults_and_spelling_of_the_server_do_not_hide_a_twin() {
        use Expected::{Sent, Unknown};
        use Kind::{Action, Annotation, Cohort};
        let filters = json!({"properties": {"type": "OR", "values": [{"key": "a"}]}});
        let other = json!({"properties": {"type": "OR", "values": [{"key": "b"}]}});
        for (kind, body, found, expected, is_same) in [
            (
                Cohort,
                json!({"name": "a", "filters": filters}),
                json!({"id": 1, "name": "a", "is_static": false, "filters": filters}),
                Unknown,
                true,
            ),
            (
                Cohort,
                json!({"name": "a", "filters": filters}),
                json!({"name": "a", "filters": other}),
                Unknown,
                false,
            ),
            (
                Cohort,
                json!({"name": "a", "filters": filters}),
                json!({"name": "a", "filters": other}),
                Sent,
                true,
            ),
            (Cohort, json!({"name": "a"}), json!({"name": "a", "is_static": true}), Sent, false),
            (Cohort, json!({"name": "a"}), json!({"name": "b"}), Sent, false),
            (
                Action,
                json!({"name": "a", "tags": ["B", "a"]}),
                json!({"name": "a", "tags": ["a", "b"]}),
                Unknown,
                true,
            ),
            (
                Annotation,
                json!({"content": "a", "date_marker": "2024-01-01T00:00:00Z", "scope": "project"}),
                json!({"content": "a", "date_marker": "2024-01-01T00:00:00.000000+00:00", "scope": "project"}),
                Sent,
                true,
            ),
            (
                Annotation,
                json!({"content": "a", "date_marker": "2024-01-02T00:00:00Z"}),
                json!({"content": "a", "date_marker": "2024-01-01T00:00:00Z"}),
                Sent,
                false,
            ),
        ] {
            assert_eq!(is_equal(kind, body.clone(), found, expected), is_same, "{body}");
        }
    }
}
