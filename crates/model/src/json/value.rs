//! Lenient parsing into values, and compaction so that equal arrays and objects are equal bytes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Members, Result, skip_whitespace, string_end, value_end};

/// Parses JSON; what `Value` cannot hold becomes null: numbers out of range, lone surrogates. `None`
/// if the text is malformed.
pub fn to_value(json: &str) -> Option<Value> {
    let bytes = json.as_bytes();
    serde_json::from_str(json).ok().or_else(|| {
        let end = value_end(bytes, skip_whitespace(bytes, 0)).ok()?;
        let is_whole = skip_whitespace(bytes, end) == bytes.len();
        is_whole.then(|| by_parts(json).ok()).flatten()
    })
}

fn by_parts(json: &str) -> Result<Value> {
    let bytes = json.as_bytes();
    let start = skip_whitespace(bytes, 0);
    Ok(match bytes.get(start) {
        Some(b'{') => {
            let mut all = Map::new();
            for member in Members::at(json, start)? {
                let (name, value) = member?;
                all.insert(name.into_owned(), by_parts(value)?);
            }
            Value::Object(all)
        }
        Some(b'[') => {
            let mut all = Vec::new();
            let mut at = skip_whitespace(bytes, start + 1);
            while bytes.get(at).is_some_and(|byte| *byte != b']') {
                let end = value_end(bytes, at)?;
                all.push(by_parts(&json[at..end])?);
                at = skip_whitespace(bytes, end);
                at = skip_whitespace(bytes, at + usize::from(bytes.get(at) == Some(&b',')));
            }
            Value::Array(all)
        }
        _ => serde_json::from_str(json).unwrap_or(Value::Null),
    })
}

/// Removes whitespace and unneeded escapes from an object or array. Keeps the order of members and
/// the literals of numbers.
pub fn compact(json: &str) -> Result<Cow<'_, str>> {
    let bytes = json.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\\')) {
        return Ok(Cow::Borrowed(json));
    }
    let mut compacted = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'"' => {
                let end = string_end(bytes, at)?;
                let text = &json[at..end];
                match serde_json::from_str::<String>(text) {
                    Ok(plain) if text.contains('\\') => {
                        compacted.push_str(&Value::from(plain).to_string());
                    }
                    _ => compacted.push_str(text),
                }
                at = end;
            }
            _ => {
                compacted.push(char::from(*byte));
                at += 1;
            }
        }
    }
    Ok(Cow::Owned(compacted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn to_value_turns_unrepresentable_values_into_null() {
        for (json, value) in [
            (
                r#"{"a":1e400,"b":[1, -1e999 ,{"c":"x"}],"d":[],"e":{}}"#,
                json!({"a": null, "b": [1, null, {"c": "x"}], "d": [], "e": {}}),
            ),
            (r#"{"a":"\ud800","b":"y"}"#, json!({"a": null, "b": "y"})),
            ("1e400", Value::Null),
            ("[ 1.5 ]", json!([1.5])),
        ] {
            assert_eq!(to_value(json), Some(value), "{json}");
        }
        assert_eq!((to_value("{"), to_value("[1e400")), (None, None));
    }

    #[test]
    fn compact_gives_equal_values_equal_bytes() {
        for (json, expected) in [
            (r#"["école","b"]"#, r#"["école","b"]"#),
            (r#"[ "\u00e9cole" ,"b"]"#, r#"["école","b"]"#),
            ("{\"b\" : 1.0,\n\"a b\":\"x\\/ \\\"y\\n\"}", "{\"b\":1.0,\"a b\":\"x/ \\\"y\\n\"}"),
            (r#"["\ud800", 12345678901234567890123]"#, r#"["\ud800",12345678901234567890123]"#),
        ] {
            assert_eq!(compact(json).unwrap(), expected);
        }
    }
}
