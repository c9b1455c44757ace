//! Replaces what SDKs send although JSON or the stores do not allow it: lone surrogates, U+0000, NaN.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use crate::Result;
use crate::memory::MemoryTracker;
use crate::outline::skip_string;

/// Replaces escapes that UTF-8 cannot represent (lone surrogates) or stores cannot hold (U+0000) by
/// U+FFFD. All are six bytes long, so it replaces in place; it copies only if there are any.
pub(crate) fn replace_escapes<'a>(
    text: Cow<'a, str>,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, str>> {
    if memmem::find(text.as_bytes(), b"\\u").is_none() {
        return Ok(text);
    }
    let Some((mut at, mut resume)) = next_replaceable(text.as_bytes(), 0) else { return Ok(text) };
    if let Cow::Borrowed(text) = text {
        memory.take(text.len())?;
    }
    let mut bytes = text.into_owned().into_bytes();
    loop {
        bytes[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
        match next_replaceable(&bytes, resume) {
            Some(next) => (at, resume) = next,
            None => break,
        }
    }
    Ok(Cow::Owned(String::from_utf8(bytes).expect("ASCII was replaced by ASCII")))
}

const ESCAPE_BYTES: usize = 6;

/// The offset of the next escape to replace at or after `at`, and where to continue. Backslashes occur
/// only inside strings, so it can step from one to the next without tracking quotes.
fn next_replaceable(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    while let Some(offset) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += offset;
        let Some(unit) = escape_at(bytes, at) else {
            at += 2;
            continue;
        };
        at += ESCAPE_BYTES;
        match unit {
            0xD800..=0xDBFF => match escape_at(bytes, at) {
                Some(0xDC00..=0xDFFF) => at += ESCAPE_BYTES,
                _ => return Some((at - ESCAPE_BYTES, at)),
            },
            0 | 0xDC00..=0xDFFF => return Some((at - ESCAPE_BYTES, at)),
            _ => {}
        }
    }
    None
}

fn escape_at(bytes: &[u8], at: usize) -> Option<u16> {
    let [b'\\', b'u', hex @ ..] = bytes.get(at..at + 6)? else { return None };
    hex.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | digit as u16)
    })
}

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by `null`.
pub(crate) fn replace_nan_with_null<'a>(
    text: Cow<'a, str>,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, str>> {
    const SPELLINGS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let bytes = text.as_bytes();
    if memmem::find(bytes, b"NaN").is_none() && memmem::find(bytes, b"Infinity").is_none() {
        return Ok(text);
    }
    // `NaN` grows by one character.
    let bytes_max = text.len() + text.len() / 3 + 1;
    memory.take(bytes_max)?;
    let mut out = String::with_capacity(bytes_max);
    let mut at = 0;
    while at < bytes.len() {
        if let Some(spelling) = SPELLINGS.iter().find(|word| text[at..].starts_with(**word)) {
            out.push_str("null");
            at += spelling.len();
            continue;
        }
        let end = match bytes[at] {
            b'"' => skip_string(bytes, at).unwrap_or(bytes.len()),
            b'N' | b'I' | b'-' => at + 1,
            _ => bytes[at..]
                .iter()
                .position(|byte| matches!(byte, b'"' | b'N' | b'I' | b'-'))
                .map_or(bytes.len(), |length| at + length),
        };
        out.push_str(&text[at..end]);
        at = end;
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_and_nul_become_the_replacement_character() {
        for (text, expected) in [
            (r#"{"a":"x"}"#, r#"{"a":"x"}"#),
            (r#""\u00e9 \ud83d\ude00""#, r#""\u00e9 \ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uDE00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#"{"\u0000":"\\u0000\u0000"}"#, r#"{"\ufffd":"\\u0000\ufffd"}"#),
            (r#""\ud8"#, r#""\ud8"#),
            (r#""\u"#, r#""\u"#),
        ] {
            let repaired =
                replace_escapes(Cow::Borrowed(text), &mut MemoryTracker::new(100, &mut |_| true))
                    .unwrap();
            assert_eq!(repaired, expected);
            assert_eq!(matches!(repaired, Cow::Borrowed(_)), text == expected);
        }
    }

    #[test]
    fn nan_and_infinity_become_null_outside_of_strings() {
        for (text, expected) in [
            (
                r#"{"a":NaN,"b":[Infinity,-Infinity],"c":-1}"#,
                r#"{"a":null,"b":[null,null],"c":-1}"#,
            ),
            (r#"{"NaN":"\"Infinity","é":NaN}"#, r#"{"NaN":"\"Infinity","é":null}"#),
            (r#"{"a":"NaN"#, r#"{"a":"NaN"#),
        ] {
            let mut reserve = |_| true;
            let memory = &mut MemoryTracker::new(100, &mut reserve);
            let nulled = replace_nan_with_null(Cow::Borrowed(text), memory);
            assert_eq!(nulled.unwrap(), expected);
        }
    }
}
