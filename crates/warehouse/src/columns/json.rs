//! Splits JSON objects into members and writes them.

use model::json::{JsonError, Members};

use crate::columns::value::{Value, write_json_string};

/// Calls `each` with every member in order. A repeated name is reported each time; by convention the
/// last one counts.
pub fn for_each_json_member(
    object: &str,
    mut each: impl FnMut(&str, Value<'_>),
) -> Result<(), JsonError> {
    let mut members = Members::new(object)?;
    for member in &mut members {
        let (name, json) = member?;
        with_json_value(json, |value| each(&name, value));
    }
    if members.is_finished() { Ok(()) } else { Err(JsonError::Malformed) }
}

/// Decodes a JSON value and passes it to `then`; `None` for an empty string.
pub fn with_json_value<T>(json: &str, then: impl FnOnce(Value<'_>) -> T) -> Option<T> {
    if let Some(value) = read(json) {
        return Some(then(value));
    }
    Some(match serde_json::from_str::<String>(json) {
        Ok(text) => then(Value::Text(&text)),
        // A lone surrogate has no UTF-8 form; its JSON is stored unchanged.
        Err(_) if !json.is_empty() => then(Value::Json(json)),
        Err(_) => return None,
    })
}

/// `None` for a string with escapes.
fn read(json: &str) -> Option<Value<'_>> {
    let escaped = json.starts_with('"') && json.as_bytes().contains(&b'\\');
    if escaped { None } else { read_plain(json) }
}

/// Decodes JSON without escapes; `None` for an empty string.
pub(crate) fn read_plain(json: &str) -> Option<Value<'_>> {
    Some(match *json.as_bytes().first()? {
        b'"' => Value::Text(&json[1..json.len() - 1]),
        b'{' | b'[' => Value::Json(json),
        b't' => Value::Bool(true),
        b'f' => Value::Bool(false),
        b'n' => Value::Null,
        _ => Value::Number(json),
    })
}

/// Writes an object member by member.
pub(crate) struct ObjectWriter {
    json: String,
}

impl ObjectWriter {
    pub fn new() -> ObjectWriter {
        ObjectWriter { json: String::from("{") }
    }

    pub fn member(&mut self, name: &str, value: Value<'_>) {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        write_json_string(name, &mut self.json);
        self.json.push(':');
        value.write_json(&mut self.json);
    }

    pub fn finish(mut self) -> String {
        self.json.push('}');
        self.json
    }
}

/// Names as a JSON array: the value of `properties_null`.
pub(crate) fn names_to_json(names: &[String]) -> String {
    let mut out = String::from("[");
    for name in names {
        if out.len() > 1 {
            out.push(',');
        }
        write_json_string(name, &mut out);
    }
    out.push(']');
    out
}

pub(crate) fn names_from_json(json: &str) -> Result<Vec<String>, serde_json::Error> {
    serde_json::from_str(json)
}
