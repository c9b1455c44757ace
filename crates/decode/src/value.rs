//! Converts raw JSON values to strings as the contract defines, and bounds the size of parsed JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// A distinct id keeps 200 characters, so larger compound values are not worth sorting.
const SORTED_JSON_BYTES_MAX: usize = 64 * 1_024;

/// Heap bytes of one member in a `serde_json::Value`: vectors double, B-tree nodes are half full.
const MEMBER_BYTES: usize = 112;
/// The first B-tree node of an object, with capacity for eleven members.
const OBJECT_BYTES: usize = 640;
/// The initial capacity of an array, four values.
const ARRAY_BYTES: usize = 160;

/// Upper bound of the heap that parsing into a `serde_json::Value` takes, up to eighty times the
/// length of the JSON. Counts commas and brackets inside strings too.
pub fn parsed_bytes_max(json: &[u8]) -> usize {
    let count = |byte: u8| json.iter().filter(|other| **other == byte).count();
    json.len()
        + MEMBER_BYTES * (count(b',') + 1)
        + OBJECT_BYTES * count(b'{')
        + ARRAY_BYTES * count(b'[')
}

/// The content of a JSON string, borrowed if nothing is escaped; `None` for other values.
pub(crate) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    Some(serde_json::from_str(raw).map_or(Cow::Borrowed(inner), Cow::Owned))
}

/// The content of a string; numbers and booleans as spelled; arrays and objects as compact JSON with
/// sorted keys.
pub(crate) fn text(raw: &str) -> Cow<'_, str> {
    match raw.as_bytes().first() {
        Some(b'"') => string(raw).unwrap_or_default(),
        Some(b'{' | b'[') if raw.len() <= SORTED_JSON_BYTES_MAX => {
            let mut out = String::with_capacity(raw.len());
            match sorted(raw, &mut out) {
                Ok(()) => Cow::Owned(out),
                Err(_) => Cow::Borrowed(raw),
            }
        }
        _ => Cow::Borrowed(raw),
    }
}

/// Works on raw JSON, since parsing would lose the spelling of numbers. `outline` bounds the
/// recursion.
fn sorted(raw: &str, out: &mut String) -> serde_json::Result<()> {
    match raw.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw)?;
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::to_string(key)?);
                out.push(':');
                sorted(value.get(), out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(raw)?;
            out.push('[');
            for (index, value) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                sorted(value.get(), out)?;
            }
            out.push(']');
        }
        Some(b'"') => out.push_str(&serde_json::to_string(&string(raw).unwrap_or_default())?),
        _ => out.push_str(raw),
    }
    Ok(())
}

/// An integer, truncated if it is spelled as a float.
pub(crate) fn integer(raw: &str) -> Option<i64> {
    raw.parse().ok().or_else(|| {
        let number: f64 = raw.parse().ok()?;
        is_number(raw).then_some(number as i64)
    })
}

pub(crate) fn is_number(raw: &str) -> bool {
    matches!(raw.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: ingestion 51-53
    #[test]
    fn json_values_convert_to_strings() {
        for (raw, expected) in [
            (r#""plain""#, "plain"),
            (r#""a\"b\u00e9\n""#, "a\"bé\n"),
            ("23", "23"),
            ("23.4", "23.4"),
            ("1e400", "1e400"),
            ("true", "true"),
            (r#"["a" , "b"]"#, r#"["a","b"]"#),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (
                r#"[{"z":{"d":1.50,"c":"\u00e9"},"z":{"d":2,"c":null}}, []]"#,
                r#"[{"z":{"c":null,"d":2}},[]]"#,
            ),
        ] {
            assert_eq!(text(raw), expected, "{raw}");
        }
    }

    #[test]
    fn integers_parse_from_any_number() {
        for (raw, expected) in [
            ("1500", Some(1500)),
            ("-2", Some(-2)),
            ("1500.9", Some(1500)),
            ("1e3", Some(1000)),
            ("1e400", Some(i64::MAX)),
            ("\"5\"", None),
            ("true", None),
            ("inf", None),
        ] {
            assert_eq!(integer(raw), expected, "{raw}");
        }
    }
}
