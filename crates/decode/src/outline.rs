//! Scans the outline of a JSON text: the kind of its top level, the range of `batch`, the depth.
//!
//! `api_key` and `sent_at` may follow the batch. So a cheap scan over quotes and brackets comes first;
//! parsing the parts validates the grammar.

use std::ops::Range;

use model::json::{container_end, skip_whitespace, unescaped_end};

use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outline {
    Array,
    Object {
        /// The byte range of the value of `batch`.
        batch: Option<Range<usize>>,
        /// Has only `data` (a string), a token and `compression`.
        wrapper: bool,
    },
}

pub(crate) fn outline(text: &str) -> Result<Outline> {
    let bytes = text.as_bytes();
    let start = skip_whitespace(bytes, 0);
    let (outline, end) = match bytes.get(start) {
        Some(b'[') => (Outline::Array, skip_value(bytes, start, 0)?),
        Some(b'{') => {
            let (mut batch, mut data, mut others) = (None, false, false);
            let end = walk_object(text, start, |key, value| match key {
                "batch" => batch = Some(value),
                "data" => data = bytes[value.start] == b'"',
                "api_key" | "token" | "$token" | "compression" => {}
                _ => others = true,
            })?;
            let wrapper = data && !others && batch.is_none();
            (Outline::Object { batch, wrapper }, end)
        }
        Some(_) => {
            return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => Error::Shape,
                Err(_) => Error::Json,
            });
        }
        None => return Err(Error::Empty),
    };
    match skip_whitespace(bytes, end) {
        rest if rest == bytes.len() => Ok(outline),
        _ => Err(Error::Json),
    }
}

/// Calls `visit` with each key (not unescaped) and the byte range of its value. Returns the object's
/// end.
pub(crate) fn walk_object(
    text: &str,
    start: usize,
    mut visit: impl FnMut(&str, Range<usize>),
) -> Result<usize> {
    let bytes = text.as_bytes();
    let mut at = skip_whitespace(bytes, start + 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        if bytes.get(at) != Some(&b'"') {
            return Err(Error::Json);
        }
        let key_end = skip_string(bytes, at)?;
        let key = &text[at + 1..key_end - 1];
        at = skip_whitespace(bytes, key_end);
        if bytes.get(at) != Some(&b':') {
            return Err(Error::Json);
        }
        at = skip_whitespace(bytes, at + 1);
        let end = skip_value(bytes, at, 1)?;
        visit(key, at..end);
        at = skip_whitespace(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = skip_whitespace(bytes, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(Error::Json),
        }
    }
}

/// The end of the value at offset `at`, which is nested in `depth` others.
pub(crate) fn skip_value(bytes: &[u8], at: usize, depth: usize) -> Result<usize> {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => Ok(container_end(bytes, at, depth)?),
        Some(b',' | b':' | b'}' | b']') | None => Err(Error::Json),
        Some(_) => {
            let scalar = bytes[at..].iter().position(|byte| {
                matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b'"' | b':')
            });
            Ok(scalar.map_or(bytes.len(), |length| at + length))
        }
    }
}

/// The end of the string whose opening quote is at `at`.
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> Result<usize> {
    let mut at = at + 1;
    loop {
        at = unescaped_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Error::Json),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::json::DEPTH_MAX;

    use super::*;

    #[test]
    fn outline_recognizes_the_top_level() {
        let object = |batch, wrapper| Ok(Outline::Object { batch, wrapper });
        for (text, expected) in [
            (" [1, [2]] ", Ok(Outline::Array)),
            ("{}", object(None, false)),
            (r#"{"a":"}\"]","batch" : [{"b":[]}] ,"c":1}"#, object(Some(22..32), false)),
            (r#"{"data":"x"}"#, object(None, true)),
            (r#"{"token":"t","data":"x","compression":"lz64"}"#, object(None, true)),
            (r#"{"data":{}}"#, object(None, false)),
            (r#"{"data":"x","event":"e"}"#, object(None, false)),
            ("5", Err(Error::Shape)),
            ("\"x\"", Err(Error::Shape)),
            ("null", Err(Error::Shape)),
            ("nope", Err(Error::Json)),
            (" ", Err(Error::Empty)),
            (r#"{"event":"#, Err(Error::Json)),
            (r#"{"event":"\"#, Err(Error::Json)),
            ("{} {}", Err(Error::Json)),
            (r#"{"a" 1}"#, Err(Error::Json)),
            ("{,}", Err(Error::Json)),
        ] {
            assert_eq!(outline(text), expected, "{text}");
        }
    }

    #[test]
    fn nesting_depth_is_bounded() {
        let nested = |open: &str, close: &str, levels: usize| {
            format!("{}{}", open.repeat(levels), close.repeat(levels))
        };
        for (text, expected) in [
            (nested("[", "]", DEPTH_MAX), None),
            (nested("[", "]", DEPTH_MAX + 1), Some(Error::TooDeep)),
            (format!("{{\"a\":{}}}", nested("[", "]", DEPTH_MAX - 1)), None),
            (format!("{{\"a\":{}}}", nested("[", "]", DEPTH_MAX)), Some(Error::TooDeep)),
            ("[".repeat(100_000), Some(Error::TooDeep)),
            ("{\"a\":".repeat(100_000), Some(Error::TooDeep)),
            (format!("[\"{}\"]", "[".repeat(100_000)), None),
        ] {
            assert_eq!(outline(&text).err(), expected);
        }
    }
}
