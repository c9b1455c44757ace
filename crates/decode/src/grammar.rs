//! The grammar of JSON, checked in one pass over bytes that nobody needs as values yet.
//!
//! serde_json does the same with more care for where an error is, which costs twice the time,
//! and nothing else of a batch costs as much as looking at all of its bytes.

use crate::outline::{DEPTH_MAX, skip_blanks};
use crate::plain::plain_end;
use crate::{Error, Result};

/// Where the value that starts at `start` ends. It is a whole value, nested at most so deep as
/// [`DEPTH_MAX`] allows.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> Result<usize> {
    // One bit for each level that is open, set for objects.
    const { assert!(DEPTH_MAX < u128::BITS as usize) };
    let (mut open, mut depth) = (0u128, 0);
    let mut at = start;
    loop {
        let first = *bytes.get(at).ok_or(Error::Json)?;
        at = match first {
            b'"' => string_end(bytes, at)?,
            b'{' | b'[' => {
                if depth == DEPTH_MAX {
                    return Err(Error::TooDeep);
                }
                let inner = skip_blanks(bytes, at + 1);
                // Two behind the opening bracket in ASCII stands the closing one.
                if bytes.get(inner) == Some(&(first + 2)) {
                    inner + 1
                } else {
                    depth += 1;
                    open = open << 1 | u128::from(first == b'{');
                    at = if first == b'{' { key_end(bytes, inner)? } else { inner };
                    continue;
                }
            }
            b'-' | b'0'..=b'9' => number_end(bytes, at)?,
            b't' => word_end(bytes, at, b"true")?,
            b'f' => word_end(bytes, at, b"false")?,
            b'n' => word_end(bytes, at, b"null")?,
            _ => return Err(Error::Json),
        };
        loop {
            if depth == 0 {
                return Ok(at);
            }
            at = skip_blanks(bytes, at);
            let in_object = open & 1 == 1;
            match bytes.get(at) {
                Some(b',') => {
                    at = skip_blanks(bytes, at + 1);
                    if in_object {
                        at = key_end(bytes, at)?;
                    }
                    break;
                }
                Some(b'}') if in_object => {}
                Some(b']') if !in_object => {}
                _ => return Err(Error::Json),
            }
            at += 1;
            depth -= 1;
            open >>= 1;
        }
    }
}

/// From a key's quote to where its value starts.
fn key_end(bytes: &[u8], at: usize) -> Result<usize> {
    if bytes.get(at) != Some(&b'"') {
        return Err(Error::Json);
    }
    value_start(bytes, string_end(bytes, at)?)
}

/// From behind a key to where its value starts.
pub(crate) fn value_start(bytes: &[u8], at: usize) -> Result<usize> {
    let at = skip_blanks(bytes, at);
    match bytes.get(at) {
        Some(b':') => Ok(skip_blanks(bytes, at + 1)),
        _ => Err(Error::Json),
    }
}

/// Where the string whose quote stands at `at` ends.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Result<usize> {
    let mut at = at + 1;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(bytes, at)?,
            _ => return Err(Error::Json),
        }
    }
}

fn escape_end(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(Error::Json),
        },
        _ => Err(Error::Json),
    }
}

fn number_end(bytes: &[u8], at: usize) -> Result<usize> {
    let digits_end = |from: usize| {
        let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 { Err(Error::Json) } else { Ok(from + digits) }
    };
    let whole = at + usize::from(bytes[at] == b'-');
    let mut at = digits_end(whole)?;
    if bytes[whole] == b'0' && at > whole + 1 {
        return Err(Error::Json);
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits_end(at)?;
    }
    Ok(at)
}

fn word_end(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize> {
    match bytes[at..].starts_with(word) {
        true => Ok(at + word.len()),
        false => Err(Error::Json),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn is_json(text: &str) -> bool {
        value_end(text.as_bytes(), 0) == Ok(text.len())
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "}",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1]",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u123",
            "\"a\nb\"",
            "\"a\u{1}\"",
            "01",
            "-",
            "1.",
            ".1",
            "1e",
            "1e+",
            "+1",
            "--1",
            "nul",
            "True",
            "NaN",
            "truefalse",
        ] {
            assert!(!is_json(text), "{text}");
            assert!(serde_json::from_str::<IgnoredAny>(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Of pieces that JSON is made of, both readers take the same.
        #[test]
        fn it_agrees_with_serde_json(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "\"\\n\\u00e9é\"", "\"", "\\", "0",
                "-1.5e-7", "12", ".", "e", "-", "true", "false", "null", " ", "\n", "\u{7f}",
                "\"long enough for more than a word of eight\"", "\"x\":1", "[]", "{}",
            ]), 0..12)
        ) {
            let text = pieces.concat();
            let theirs = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            let (start, end) = (skip_blanks(text.as_bytes(), 0), text.trim_ascii_end().len());
            prop_assert_eq!(value_end(text.as_bytes(), start) == Ok(end.max(start)), theirs, "{}", text);
        }

        #[test]
        fn every_value_is_taken(value in json_value()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                prop_assert!(is_json(&text), "{}", text);
                prop_assert!(!is_json(&text[..text.len() - 1]) || value.is_number());
            }
        }
    }

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::hash_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(is_json(&nested(DEPTH_MAX)));
        assert_eq!(value_end(nested(DEPTH_MAX + 1).as_bytes(), 0), Err(Error::TooDeep));
    }
}
