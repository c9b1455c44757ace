//! Values and members as most are: on a way of their own, past what the others may be.

use super::unescaped_end;

/// Where a string without escapes or a number without exponent ends that starts at `start`, as most
/// values do; anything else is not looked at.
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

/// From a key's quote past all members that are simple and have no blanks, as most are, to the quote
/// of the next one.
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
