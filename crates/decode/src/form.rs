//! `application/x-www-form-urlencoded`, as in query strings and form bodies. Values stay bytes:
//! `encodings` validates UTF-8 once, at the end.

use std::borrow::Cow;

use memchr::memchr2;

/// Bytes that are sniffed to recognize a form.
const SNIFF_BYTES: usize = 128;
const FIELDS: [&[u8]; 4] = [b"data=", b"_=", b"ip=", b"compression="];

pub(crate) fn looks_like_form(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(SNIFF_BYTES)];
    head.split(|byte| *byte == b'&').any(|pair| FIELDS.iter().any(|name| pair.starts_with(name)))
}

pub(crate) fn pairs(bytes: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        (decoded(name), decoded(value))
    })
}

fn decoded(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr2(b'+', b'%', bytes) else { return Cow::Borrowed(bytes) };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let mut at = first;
    while let Some(byte) = bytes.get(at) {
        let escaped = match byte {
            b'%' => bytes.get(at + 1).zip(bytes.get(at + 2)).and_then(hex_pair),
            _ => None,
        };
        match (byte, escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
        at += 1;
    }
    Cow::Owned(out)
}

fn hex_pair((high, low): (&u8, &u8)) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_unescaped() {
        let read = |text: &str| -> Vec<(String, String)> {
            let text_of = |bytes: Cow<[u8]>| String::from_utf8_lossy(&bytes).into_owned();
            pairs(text.as_bytes()).map(|(name, value)| (text_of(name), text_of(value))).collect()
        };
        for (text, expected) in [
            ("", vec![]),
            ("a=b&&c=%7B%22+%C3%A9&d", vec![("a", "b"), ("c", "{\" é"), ("d", "")]),
            ("a=%&b=%2&c=%zz&d==", vec![("a", "%"), ("b", "%2"), ("c", "%zz"), ("d", "=")]),
            ("%64ata=x", vec![("data", "x")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn forms_are_recognized_by_their_first_bytes() {
        let far = format!("{}&data=x", "y".repeat(200));
        for (text, expected) in [
            ("data=x", true),
            ("ver=1&_=2", true),
            ("ip=1&data=x", true),
            ("mydata=x", false),
            ("abc", false),
            (&far, false),
        ] {
            assert_eq!(looks_like_form(text.as_bytes()), expected, "{text}");
        }
    }
}
