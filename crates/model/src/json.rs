//! A JSON scanner: validates the grammar in one pass and yields spans instead of values.
//!
//! serde_json also tracks error locations, which takes twice the time, and scanning its bytes is one
//! of the largest costs of ingesting an event.

mod container;
mod fast_path;
mod strings;
mod value;

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

pub use container::container_end;
use fast_path::{simple_end, simple_to};
pub use strings::unescaped_end;
pub use value::{compact, to_value};

/// Nesting depth; below serde_json's limit of 128, so serde_json can parse whatever passes here.
pub const DEPTH_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    #[error("not valid JSON")]
    Malformed,
    #[error("nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
}

pub type Result<T, E = JsonError> = std::result::Result<T, E>;

/// Iterator over the members of an object: unescaped name, and the value's JSON. A repeated name is
/// yielded each time; callers let the last one win. The iterator ends after an error.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    json: &'a str,
    /// Offset of the next name; `None` at the end of the object.
    next: Option<usize>,
    end: usize,
}

/// Byte ranges of a member's name and value.
#[derive(Clone, Debug)]
pub struct MemberSpan {
    /// Without its quotes.
    pub name: Range<usize>,
    pub value: Range<usize>,
    /// The value is known to hold no escapes; false if that was not checked.
    pub plain: bool,
}

impl<'a> Members<'a> {
    /// For a text that is one object. [`Members::is_finished`] checks that nothing follows it.
    pub fn new(json: &'a str) -> Result<Self> {
        Self::at(json, skip_whitespace(json.as_bytes(), 0))
    }

    /// For the object whose `{` is at `start`.
    pub fn at(json: &'a str, start: usize) -> Result<Self> {
        let bytes = json.as_bytes();
        if bytes.get(start) != Some(&b'{') {
            return Err(JsonError::Malformed);
        }
        let first = skip_whitespace(bytes, start + 1);
        Ok(match bytes.get(first) {
            Some(b'}') => Self { json, next: None, end: first + 1 },
            _ => Self { json, next: Some(first), end: 0 },
        })
    }

    /// Offset after the closing `}`, once all members were yielded.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Whether all members were yielded and only whitespace follows.
    pub fn is_finished(&self) -> bool {
        self.next.is_none() && skip_whitespace(self.json.as_bytes(), self.end) == self.json.len()
    }

    fn member(&mut self, at: usize) -> Result<(Cow<'a, str>, &'a str)> {
        let bytes = self.json.as_bytes();
        if bytes.get(at) != Some(&b'"') {
            return Err(JsonError::Malformed);
        }
        let name_end = string_end(bytes, at)?;
        let name = text(&self.json[at..name_end]).ok_or(JsonError::Malformed)?;
        let start = value_start(bytes, name_end)?;
        Ok((name, self.value(start)?))
    }

    /// The byte range of a slice that was borrowed from this text.
    pub fn span_of(&self, piece: &str) -> Range<usize> {
        let start = piece.as_ptr().addr() - self.json.as_ptr().addr();
        start..start + piece.len()
    }

    /// The next member, if it begins with `start` (its quoted name and the colon). Cheaper than
    /// [`Iterator::next`], as it compares the name instead of scanning it.
    #[inline]
    pub fn next_if(&mut self, start: &str) -> Option<Result<MemberSpan>> {
        let at = self.next?;
        let end = at + start.len();
        let bytes = self.json.as_bytes();
        if bytes.get(at..end)? != start.as_bytes() {
            return None;
        }
        let name = at + 1..end - 2;
        let value_end = simple_end(bytes, end);
        if value_end > end
            && let Some([b',', b'"', ..]) = bytes.get(value_end..)
        {
            self.next = Some(value_end + 1);
            return Some(Ok(MemberSpan { name, value: end..value_end, plain: true }));
        }
        self.next = None;
        let start = skip_whitespace(bytes, end);
        let plain = !matches!(bytes.get(start), Some(b'"' | b'{' | b'['));
        let value = self.value(start);
        Some(value.map(|value| MemberSpan { name, value: self.span_of(value), plain }))
    }

    fn value(&mut self, start: usize) -> Result<&'a str> {
        let bytes = self.json.as_bytes();
        let end = value_end(bytes, start)?;
        let after = skip_whitespace(bytes, end);
        match bytes.get(after) {
            Some(b',') => self.next = Some(skip_whitespace(bytes, after + 1)),
            Some(b'}') => self.end = after + 1,
            _ => return Err(JsonError::Malformed),
        }
        Ok(&self.json[start..end])
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(Cow<'a, str>, &'a str)>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next.take()?;
        Some(self.member(at))
    }
}

/// Unescapes a JSON string, borrowing it when it has no escapes; `None` for a lone surrogate.
fn text(string: &str) -> Option<Cow<'_, str>> {
    match string.as_bytes().contains(&b'\\') {
        true => serde_json::from_str(string).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(&string[1..string.len() - 1])),
    }
}

pub fn skip_whitespace(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// End of the value that starts at `start`. Validates it, including [`DEPTH_MAX`].
pub fn value_end(bytes: &[u8], start: usize) -> Result<usize> {
    // A stack with one bit per open level: 1 for an object, 0 for an array.
    const { assert!(DEPTH_MAX < u128::BITS as usize) };
    let (mut open, mut depth) = (0u128, 0);
    let mut at = start;
    loop {
        let first = *bytes.get(at).ok_or(JsonError::Malformed)?;
        at = match first {
            b'"' => string_end(bytes, at)?,
            b'{' | b'[' => {
                if depth == DEPTH_MAX {
                    return Err(JsonError::TooDeep);
                }
                let inner = skip_whitespace(bytes, at + 1);
                // In ASCII, `]` and `}` are two after `[` and `{`.
                if bytes.get(inner) == Some(&(first + 2)) {
                    inner + 1
                } else {
                    depth += 1;
                    open = open << 1 | u128::from(first == b'{');
                    at = if first == b'{' {
                        key_end(bytes, simple_to(bytes, inner))?
                    } else {
                        inner
                    };
                    continue;
                }
            }
            b'-' | b'0'..=b'9' => number_end(bytes, at)?,
            b't' => word_end(bytes, at, b"true")?,
            b'f' => word_end(bytes, at, b"false")?,
            b'n' => word_end(bytes, at, b"null")?,
            _ => return Err(JsonError::Malformed),
        };
        loop {
            if depth == 0 {
                return Ok(at);
            }
            at = skip_whitespace(bytes, at);
            let in_object = open & 1 == 1;
            match bytes.get(at) {
                Some(b',') => {
                    at = skip_whitespace(bytes, at + 1);
                    if in_object {
                        at = key_end(bytes, simple_to(bytes, at))?;
                    }
                    break;
                }
                Some(b'}') if in_object => {}
                Some(b']') if !in_object => {}
                _ => return Err(JsonError::Malformed),
            }
            at += 1;
            depth -= 1;
            open >>= 1;
        }
    }
}

/// From a key's opening quote to the start of its value.
fn key_end(bytes: &[u8], at: usize) -> Result<usize> {
    if bytes.get(at) != Some(&b'"') {
        return Err(JsonError::Malformed);
    }
    value_start(bytes, string_end(bytes, at)?)
}

/// From the end of a key to the start of its value.
pub fn value_start(bytes: &[u8], at: usize) -> Result<usize> {
    let at = skip_whitespace(bytes, at);
    match bytes.get(at) {
        Some(b':') => Ok(skip_whitespace(bytes, at + 1)),
        _ => Err(JsonError::Malformed),
    }
}

/// End of the string whose opening quote is at `at`, after the closing quote.
pub fn string_end(bytes: &[u8], at: usize) -> Result<usize> {
    let mut at = at + 1;
    loop {
        at = unescaped_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(bytes, at)?,
            _ => return Err(JsonError::Malformed),
        }
    }
}

fn escape_end(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(JsonError::Malformed),
        },
        _ => Err(JsonError::Malformed),
    }
}

fn number_end(bytes: &[u8], at: usize) -> Result<usize> {
    let digits_end = |from: usize| {
        let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 { Err(JsonError::Malformed) } else { Ok(from + digits) }
    };
    let whole = at + usize::from(bytes[at] == b'-');
    let mut at = digits_end(whole)?;
    if bytes[whole] == b'0' && at > whole + 1 {
        return Err(JsonError::Malformed);
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
        false => Err(JsonError::Malformed),
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
    fn scanner_rejects_malformed_json() {
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
        /// Random concatenations of JSON tokens: both parsers accept the same ones.
        #[test]
        fn scanner_agrees_with_serde_json(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "\"\\n\\u00e9é\"", "\"", "\\", "0",
                "-1.5e-7", "12", ".", "e", "-", "true", "false", "null", " ", "\n", "\u{7f}",
                "\"long enough for more than a word of eight\"", "\"x\":1", "[]", "{}",
            ]), 0..12)
        ) {
            let text = pieces.concat();
            let theirs = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            let (start, end) = (skip_whitespace(text.as_bytes(), 0), text.trim_ascii_end().len());
            prop_assert_eq!(value_end(text.as_bytes(), start) == Ok(end.max(start)), theirs, "{}", text);
        }

        /// Exercises the fast path for simple members.
        #[test]
        fn scanner_agrees_with_serde_json_about_members(
            members in prop::collection::vec(prop::sample::select(vec![
                r#""a":"b""#, r#""":"""#, r#""a":12"#, r#""a":0"#, r#""a":0.50"#, r#""a":01"#,
                r#""a":1."#, r#""a":1.e"#, r#""a":-1"#, r#""a":1e5"#, r#""a":"\n""#, r#""\n":1"#,
                r#""a": "b""#, r#" "a":1"#, r#""a":1 "#, r#""a" :1"#, r#""a":true"#, r#""a":{}"#,
                r#""a":[1,"b"]"#, r#""a":"b"#, r#""a""#, r#""a":"#, "a:1", "1", "12:1", "",
            ]), 0..6)
        ) {
            let text = format!("{{{}}}", members.join(","));
            prop_assert_eq!(is_json(&text), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn scanner_accepts_every_serialized_value(value in json_value()) {
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
    fn members_are_yielded_in_order_with_their_json() {
        let read = |json| {
            let mut members = Members::new(json)?;
            let all = members.by_ref().collect::<Result<Vec<_>>>()?;
            if members.is_finished() { Ok(all) } else { Err(JsonError::Malformed) }
        };
        let json = r#" { "a" : 1, "\u00e9\"":"x}" ,"a":[ {} ]} "#;
        let (a, b) = (Cow::Borrowed("a"), Cow::Owned("é\"".to_owned()));
        assert_eq!(read(json), Ok(vec![(a.clone(), "1"), (b, "\"x}\""), (a, "[ {} ]")]));
        assert_eq!(read("{}"), Ok(vec![]));
        for wrong in ["", "[]", "{", "{}x", "{\"a\":1", "{\"a\":1,}", "{\"a\":1 \"b\":2}", "{a:1}"]
        {
            assert_eq!(read(wrong), Err(JsonError::Malformed), "{wrong}");
        }
    }

    proptest! {
        /// `next_if` yields the same members and errors as `next`.
        #[test]
        fn next_if_agrees_with_next(
            pieces in prop::collection::vec(prop::sample::select(vec![
                ",", "\"", "\"a\":", "\"x\"", "\"é y\"", "\"\\n\"", "12", "0", "01", "-1", "1.5", "{}",
                "[1]", "true", " ", "}", "1e", "\u{1}",
            ]), 0..8)
        ) {
            let json = format!("{{\"a\":{}}}", pieces.concat());
            let Ok(mut any) = Members::new(&json) else { return Ok(()) };
            let mut expected = any.clone();
            loop {
                let read = expected.next_if("\"a\":").map(|read| {
                    read.map(|next| {
                        assert_eq!(&json[next.name], "a");
                        assert!(!next.plain || !json[next.value.clone()].contains('\\'));
                        &json[next.value]
                    })
                });
                let also = any.next().map(|read| read.map(|(_, value)| value));
                if read.is_none() {
                    break;
                }
                prop_assert_eq!(read, also, "{}", json);
                prop_assert_eq!(expected.is_finished(), any.is_finished());
            }
        }
    }

    #[test]
    fn nesting_depth_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(is_json(&nested(DEPTH_MAX)));
        assert_eq!(value_end(nested(DEPTH_MAX + 1).as_bytes(), 0), Err(JsonError::TooDeep));
    }
}
