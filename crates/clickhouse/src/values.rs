//! Properties in ClickHouse: a tag byte and a text for each value, so that JSON comes back exactly and
//! one column holds values of all types.
//!
//! | tag | value | text |
//! |---|---|---|
//! | `t` | string | its characters |
//! | `n` | number | its literal |
//! | `b` | boolean | `true` or `false` |
//! | `j` | object or array | its JSON |
//! | `z` | null | |
//!
//! An absent property is the empty string. HogQL's text of a property is the text without its tag, and
//! null if that is empty.

use warehouse::Value;

/// Appends an encoded value.
pub(crate) fn encode(value: Value<'_>, out: &mut String) {
    let (tag, text) = match value {
        Value::Null => ('z', ""),
        Value::Bool(true) => ('b', "true"),
        Value::Bool(false) => ('b', "false"),
        Value::Number(literal) => ('n', literal),
        Value::Text(text) => ('t', text),
        Value::Json(json) => ('j', json),
    };
    out.push(tag);
    out.push_str(text);
}

/// None if the property is absent, or was not encoded by [`encode`].
pub(crate) fn decode(encoded: &str) -> Option<Value<'_>> {
    let text = encoded.get(1..)?;
    Some(match (encoded.as_bytes()[0], text) {
        (b'z', "") => Value::Null,
        (b'b', "true") => Value::Bool(true),
        (b'b', "false") => Value::Bool(false),
        (b'n', literal) => Value::Number(literal),
        (b't', text) => Value::Text(text),
        (b'j', json) => Value::Json(json),
        _ => return None,
    })
}

/// Writes a JSON object, in the order of its members.
pub(crate) fn write_object<'v>(members: impl Iterator<Item = (&'v str, Value<'v>)>) -> String {
    let mut json = String::from("{");
    for (name, value) in members {
        if json.len() > 1 {
            json.push(',');
        }
        Value::Text(name).write_json(&mut json);
        json.push(':');
        value.write_json(&mut json);
    }
    json.push('}');
    json
}
