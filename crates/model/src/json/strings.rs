//! Scans the content of JSON strings, which make up most bytes of a body.

#[cfg(target_arch = "x86_64")]
use sse2::{BITS, BLOCK, special};

#[cfg(not(target_arch = "x86_64"))]
use swar::{BITS, BLOCK, special};

/// Offset of the first quote, backslash or control character from `at` on, or `bytes.len()`.
#[inline]
pub fn unescaped_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
        let specials = special(*block);
        if specials != 0 {
            return at + specials.trailing_zeros() as usize / BITS;
        }
        at += BLOCK;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    let rest = bytes.get(at..).unwrap_or_default();
    at.min(bytes.len()) + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Sixteen bytes at a time; SSE2 is part of x86-64.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8,
    };

    pub(super) const BLOCK: usize = 16;
    pub(super) const BITS: usize = 1;

    #[inline]
    #[allow(unsafe_code, reason = "calling a target_feature function; SSE2 is part of x86-64")]
    pub(super) fn special(block: [u8; BLOCK]) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { masked(block) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn masked(block: [u8; BLOCK]) -> u32 {
        let block = u128::from_le_bytes(block);
        let block = _mm_set_epi64x((block >> 64) as i64, block as i64);
        let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"'.cast_signed()));
        let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
        let specials = _mm_or_si128(_mm_or_si128(quotes, backslashes), controls);
        _mm_movemask_epi8(specials).cast_unsigned()
    }
}

/// SWAR, eight bytes at a time. The highest bit of the first match is set; bytes above it may be
/// false positives.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "only tested here"))]
mod swar {
    pub(super) const BLOCK: usize = 8;
    pub(super) const BITS: usize = 8;

    const ONES: u64 = u64::MAX / 255;

    #[inline]
    pub(super) fn special(block: [u8; BLOCK]) -> u64 {
        let word = u64::from_le_bytes(block);
        equal(word, b'"') | equal(word, b'\\') | below(word, 0x20)
    }

    const fn equal(word: u64, byte: u8) -> u64 {
        below(word ^ (ONES * byte as u64), 1)
    }

    const fn below(word: u64, bound: u8) -> u64 {
        word.wrapping_sub(ONES * bound as u64) & !word & (ONES << 7)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scalar_end(bytes: &[u8]) -> usize {
        let is_special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
        bytes.iter().position(is_special).unwrap_or(bytes.len())
    }

    proptest! {
        #[test]
        fn unescaped_end_agrees_with_scalar_reference(
            plain in prop::collection::vec(0x20u8..=255, 0..60),
            after in prop::collection::vec(any::<u8>(), 0..40),
            at in 0usize..80,
        ) {
            let bytes = [plain, after].concat();
            let from = at.min(bytes.len());
            prop_assert_eq!(unescaped_end(&bytes, at), from + scalar_end(&bytes[from..]));
        }

        #[test]
        fn swar_agrees_with_scalar_reference(block: [u8; 8]) {
            let end = swar::special(block).trailing_zeros() as usize / swar::BITS;
            prop_assert_eq!(end, scalar_end(&block));
        }
    }
}
