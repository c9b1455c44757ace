//! Fast path for simple members: strings without escapes, numbers without sign or exponent, no
//! whitespace. Most members of events are like that.

use super::unescaped_end;

/// End of a simple string or number at `start`. Callers check that a comma follows: for any other
/// value the result is not its end.
#[inline(always)]
pub(super) fn simple_end(bytes: &[u8], start: usize) -> usize {
    let digits_end = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    match bytes.get(start) {
        Some(b'"') => {
            let end = unescaped_end(bytes, start + 1);
            end + usize::from(bytes.get(end) == Some(&b'"'))
        }
        Some(first @ b'0'..=b'9') => {
            let whole = if *first == b'0' { start + 1 } else { digits_end(start + 1) };
            match bytes.get(whole..) {
                Some([b'.', b'0'..=b'9', ..]) => digits_end(whole + 2),
                _ => whole,
            }
        }
        _ => start,
    }
}

/// Skips simple members from a key's quote on; returns the quote of the first key that is not
/// followed by a simple value, comma and key.
pub(super) fn simple_to(bytes: &[u8], mut at: usize) -> usize {
    loop {
        if bytes.get(at) != Some(&b'"') {
            return at;
        }
        let key_end = unescaped_end(bytes, at + 1);
        let Some([b'"', b':', ..]) = bytes.get(key_end..) else { return at };
        let start = key_end + 2;
        let end = simple_end(bytes, start);
        match bytes.get(end..) {
            Some([b',', b'"', ..]) if end > start => at = end + 1,
            _ => return at,
        }
    }
}
