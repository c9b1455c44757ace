//! Skips objects and arrays by matching brackets, 64 bytes at a time (as simdjson does).

use super::{DEPTH_MAX, JsonError, Result};

const BLOCK: usize = 64;

/// Bit masks over a block: one bit per byte, for each class of byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

/// End of the object or array whose bracket is at `start`, nested in `outer` others. Counts brackets
/// outside strings only: it does not check that `{` is closed by `}`, nor any other grammar.
pub fn container_end(bytes: &[u8], start: usize, outer: usize) -> Result<usize> {
    let mut depth = outer;
    // Carried from the previous block: all ones inside a string; one if it ends in an escape.
    let (mut in_string, mut escapes) = (0, 0);
    let mut at = start;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let block_masks = match rest.first_chunk::<BLOCK>() {
            Some(block) => masks(block),
            None => {
                let mut block = [b' '; BLOCK];
                block[..rest.len()].copy_from_slice(rest);
                masks(&block)
            }
        };
        let quotes = block_masks.quotes & !escaped(block_masks.backslashes, &mut escapes);
        let strings = prefix_xor(quotes) ^ in_string;
        in_string = (strings.cast_signed() >> 63).cast_unsigned();
        let mut outside =
            (block_masks.opening | block_masks.closing | block_masks.backslashes) & !strings;
        while outside != 0 {
            let bit = outside & outside.wrapping_neg();
            outside ^= bit;
            if block_masks.opening & bit != 0 {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(JsonError::TooDeep);
                }
            } else if block_masks.closing & bit != 0 {
                depth -= 1;
                if depth == outer {
                    return Ok(at + bit.trailing_zeros() as usize + 1);
                }
            } else {
                // A backslash outside a string is malformed.
                return Err(JsonError::Malformed);
            }
        }
        at += BLOCK;
    }
    Err(JsonError::Malformed)
}

/// Bytes that are escaped: those after an unescaped backslash. simdjson's algorithm.
fn escaped(backslashes: u64, escapes: &mut u64) -> u64 {
    if backslashes == 0 {
        return std::mem::take(escapes);
    }
    const EVEN: u64 = u64::MAX / 3;
    let backslashes = backslashes & !*escapes;
    let after = backslashes << 1 | *escapes;
    // The carry of the addition runs from the start of each run of backslashes to its end. For runs
    // that start at an odd bit, this flips which of their bits are the escaped ones.
    let odd_starts = backslashes & !EVEN & !after;
    let (ends, overflow) = odd_starts.overflowing_add(backslashes);
    *escapes = u64::from(overflow);
    (EVEN ^ ends << 1) & after
}

/// Prefix XOR: each result bit is the parity of the bits up to and including it.
const fn prefix_xor(mut bits: u64) -> u64 {
    let mut shift = 1;
    while shift < u64::BITS {
        bits ^= bits << shift;
        shift *= 2;
    }
    bits
}

#[cfg(not(target_arch = "x86_64"))]
fn masks(block: &[u8; BLOCK]) -> Masks {
    scalar_masks(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn scalar_masks(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks::default();
    for (at, byte) in block.iter().enumerate() {
        let mask = match byte {
            b'"' => &mut masks.quotes,
            b'\\' => &mut masks.backslashes,
            b'{' | b'[' => &mut masks.opening,
            b'}' | b']' => &mut masks.closing,
            _ => continue,
        };
        *mask |= 1 << at;
    }
    masks
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "calling a target_feature function; SSE2 is part of x86-64")]
fn masks(block: &[u8; BLOCK]) -> Masks {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { sse2::masks(block) }
}

/// SSE2 is part of x86-64.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };

    use super::{BLOCK, Masks};

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn masks(block: &[u8; BLOCK]) -> Masks {
        let mut expected = Masks::default();
        let (parts, _) = block.as_chunks::<16>();
        for (part, at) in parts.iter().zip((0..).step_by(16)) {
            let bytes = u128::from_le_bytes(*part);
            let bytes = _mm_set_epi64x((bytes >> 64) as i64, bytes as i64);
            // Setting bit 5 turns square brackets into curly ones.
            let curly = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            expected.quotes |= equal(bytes, b'"') << at;
            expected.backslashes |= equal(bytes, b'\\') << at;
            expected.opening |= equal(curly, b'{') << at;
            expected.closing |= equal(curly, b'}') << at;
        }
        expected
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(bytes: __m128i, byte: u8) -> u64 {
        let equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
        u64::from(_mm_movemask_epi8(equal).cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reference implementation, byte by byte.
    fn end_of(bytes: &[u8], start: usize, outer: usize) -> Result<usize> {
        let (mut depth, mut in_string, mut at) = (outer, false, start);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => in_string = !in_string,
                b'\\' if in_string => at += 1,
                b'\\' => return Err(JsonError::Malformed),
                b'{' | b'[' if !in_string => {
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return Err(JsonError::TooDeep);
                    }
                }
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == outer {
                        return Ok(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Err(JsonError::Malformed)
    }

    fn scraps() -> impl Strategy<Value = String> {
        let scrap = prop_oneof![
            6 => r#""([a-z ]|\\\\|\\"|[\[\]{}]){0,20}""#,
            4 => r"[a-z0-9:, ]{0,70}",
            2 => r"[\[{]",
            2 => r"[\]}]",
            1 => r#"[\\"]"#,
        ];
        prop::collection::vec(scrap, 0..40).prop_map(|scraps| scraps.concat())
    }

    proptest! {
        #[test]
        fn container_end_agrees_with_scalar_reference(
            before in "[a-z]{0,5}",
            scraps in scraps(),
            outer in 0..3usize,
        ) {
            let text = format!("{before}[{scraps}]}}]");
            let (bytes, start) = (text.as_bytes(), before.len());
            let expected = end_of(bytes, start, outer);
            prop_assert_eq!(container_end(bytes, start, outer), expected, "{}", text);
        }

        #[test]
        fn simd_masks_agree_with_scalar_masks(
            mut block: [u8; BLOCK],
            some in prop::collection::vec((0..BLOCK, r#"["\\{}\[\]]"#), 0..20),
        ) {
            some.iter().for_each(|(at, byte)| block[*at] = byte.as_bytes()[0]);
            prop_assert_eq!(masks(&block), scalar_masks(&block));
        }
    }

    #[test]
    fn escape_sequences_carry_into_the_next_block() {
        for before in 55..75 {
            for backslashes in 0..70 {
                let text = format!(r#"["{}{}"]"]"#, "a".repeat(before), "\\".repeat(backslashes));
                let (bytes, expected) = (text.as_bytes(), end_of(text.as_bytes(), 0, 0));
                assert_eq!(container_end(bytes, 0, 0), expected, "{text}");
            }
        }
    }
}
