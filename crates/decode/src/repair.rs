//! Small repairs of JSON text that real senders make necessary.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use crate::Result;
use crate::memory::MemoryTracker;
use crate::outline::skip_string;

/// Escapes that no UTF-8 text can hold (lone surrogates) or that stores cannot keep (U+0000)
/// become U+FFFD. All are six bytes long, so the text never moves, and it is copied only when
/// something must change.
pub(crate) fn replace_escapes<'a>(
    text: Cow<'a, str>,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, str>> {
    if memmem::find(text.as_bytes(), b"\\u").is_none() {
        return Ok(text);
    }
    let Some((mut at, mut resume)) = next_unwanted(text.as_bytes(), 0) else { return Ok(text) };
    if let Cow::Borrowed(text) = text {
        memory.take(text.len())?;
    }
    let mut bytes = text.into_owned().into_bytes();
    loop {
        bytes[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
        match next_unwanted(&bytes, resume) {
            Some(next) => (at, resume) = next,
            None => break,
        }
    }
    Ok(Cow::Owned(String::from_utf8(bytes).expect("ASCII was replaced by ASCII")))
}

const ESCAPE_BYTES: usize = 6;

/// Where the next escape to be replaced stands at or after `at`, and where to look on. A backslash
/// outside of a string is no JSON, so stepping from one backslash to the next keeps escapes apart
/// without looking at quotes.
fn next_unwanted(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
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

/// `NaN`, `Infinity` and `-Infinity` where a value may stand become `null`.
pub(crate) fn null_for_numbers_that_are_none<'a>(
    text: Cow<'a, str>,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, str>> {
    const SPELLINGS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let bytes = text.as_bytes();
    if memmem::find(bytes, b"NaN").is_none() && memmem::find(bytes, b"Infinity").is_none() {
        return Ok(text);
    }
    // `NaN` becomes one letter longer.
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
    fn numbers_that_are_none_become_null_outside_of_strings() {
        for (text, expected) in [
            (
                r#"{"a":NaN,"b":[Infinity,-Infinity],"c":-1}"#,
                r#"{"a":null,"b":[null,null],"c":-1}"#,
            ),
            (r#"{"NaN":"\"Infinity","é":NaN}"#, r#"{"NaN":"\"Infinity","é":null}"#),
            (r#"{"a":"NaN"#, r#"{"a":"NaN"#),
        ] {
            let mut hold = |_| true;
            let memory = &mut MemoryTracker::new(100, &mut hold);
            let nulled = null_for_numbers_that_are_none(Cow::Borrowed(text), memory);
            assert_eq!(nulled.unwrap(), expected);
        }
    }
}
