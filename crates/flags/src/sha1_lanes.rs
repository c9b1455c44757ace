//! Four SHA-1 hashes at once, in SIMD lanes.
//!
//! Evaluating all flags of a project hashes the distinct id once per flag. On CPUs without SHA
//! instructions those hashes are a quarter of the evaluation time. SSE2, which is part of x86-64,
//! computes four of them in parallel; other architectures hash one by one.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_and_si128, _mm_cvtsi128_si64, _mm_or_si128, _mm_set_epi32,
    _mm_set1_epi32, _mm_slli_epi32, _mm_srli_epi32, _mm_srli_si128, _mm_unpackhi_epi32,
    _mm_unpacklo_epi32, _mm_xor_si128,
};

/// Hashes per call.
pub(crate) const LANES: usize = 4;
/// The longest message that fits into one block with its padding and length.
const TEXT_BYTES_MAX: usize = BLOCK - 9;
const BLOCK: usize = 64;
#[cfg(target_arch = "x86_64")]
const ROUNDS: usize = 80;

/// One padded block per lane, for messages of at most [`TEXT_BYTES_MAX`] bytes.
pub(crate) struct Blocks([[u8; BLOCK]; LANES]);

impl Blocks {
    pub(crate) fn new() -> Self {
        Self([[0; BLOCK]; LANES])
    }

    /// Writes a message into a lane; false if it is too long.
    pub(crate) fn set(&mut self, lane: usize, parts: [&str; 4]) -> bool {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > TEXT_BYTES_MAX {
            return false;
        }
        let block = &mut self.0[lane];
        let mut at = 0;
        for part in parts {
            block[at..at + part.len()].copy_from_slice(part.as_bytes());
            at += part.len();
        }
        block[at..].fill(0);
        block[at] = 0x80;
        block[BLOCK - 8..].copy_from_slice(&(bytes as u64 * 8).to_be_bytes());
        true
    }

    /// The first eight bytes of each lane's SHA-1; `None` on architectures without this code.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "calling a target_feature function; SSE2 is part of x86-64")]
    pub(crate) fn heads(&self) -> Option<[u64; LANES]> {
        // SAFETY: SSE2 is part of x86-64.
        Some(unsafe { self.compress() })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn heads(&self) -> Option<[u64; LANES]> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse2")]
    fn compress(&self) -> [u64; LANES] {
        let word = |at: usize, lane: usize| {
            i32::from_be_bytes(self.0[lane][at * 4..].first_chunk().copied().unwrap_or_default())
        };
        let mut words = [all(0); ROUNDS];
        for (at, out) in words[..BLOCK / 4].iter_mut().enumerate() {
            *out = _mm_set_epi32(word(at, 3), word(at, 2), word(at, 1), word(at, 0));
        }
        for at in BLOCK / 4..ROUNDS {
            let mixed = parity(words[at - 3], words[at - 8], words[at - 14]);
            words[at] = left::<1, 31>(_mm_xor_si128(mixed, words[at - 16]));
        }
        let (first, second) = (all(0x6745_2301), all(0xEFCD_AB89));
        let (mut a, mut b, mut c, mut d, mut e) =
            (first, second, all(0x98BA_DCFE), all(0x1032_5476), all(0xC3D2_E1F0));
        macro_rules! rounds {
            ($range:expr, $mix:ident, $constant:literal) => {
                for word in &words[$range] {
                    let added = _mm_add_epi32(*word, all($constant));
                    let mixed = _mm_add_epi32(e, $mix(b, c, d));
                    let next = _mm_add_epi32(left::<5, 27>(a), _mm_add_epi32(added, mixed));
                    (a, b, c, d, e) = (next, a, left::<30, 2>(b), c, d);
                }
            };
        }
        rounds!(0..20, choice, 0x5A82_7999);
        rounds!(20..40, parity, 0x6ED9_EBA1);
        rounds!(40..60, majority, 0x8F1B_BCDC);
        rounds!(60..ROUNDS, parity, 0xCA62_C1D6);
        let (first, second) = (_mm_add_epi32(a, first), _mm_add_epi32(b, second));
        let low = _mm_unpacklo_epi32(second, first);
        let high = _mm_unpackhi_epi32(second, first);
        let upper = |pair| _mm_srli_si128::<8>(pair);
        [low, upper(low), high, upper(high)].map(|pair| _mm_cvtsi128_si64(pair).cast_unsigned())
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn all(value: u32) -> __m128i {
    _mm_set1_epi32(value.cast_signed())
}

/// Rotates left; `BITS + REST` is 32.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn left<const BITS: i32, const REST: i32>(word: __m128i) -> __m128i {
    _mm_or_si128(_mm_slli_epi32::<BITS>(word), _mm_srli_epi32::<REST>(word))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn choice(b: __m128i, c: __m128i, d: __m128i) -> __m128i {
    _mm_xor_si128(d, _mm_and_si128(b, _mm_xor_si128(c, d)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn parity(b: __m128i, c: __m128i, d: __m128i) -> __m128i {
    _mm_xor_si128(b, _mm_xor_si128(c, d))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn majority(b: __m128i, c: __m128i, d: __m128i) -> __m128i {
    _mm_or_si128(_mm_and_si128(b, c), _mm_and_si128(d, _mm_or_si128(b, c)))
}

#[cfg(test)]
mod tests {
    use sha1::{Digest as _, Sha1};

    use super::*;

    #[test]
    fn sha1_lanes_agree_with_scalar_sha1() {
        let text = "an id that is somewhat longer than any that fits into one block";
        for first in 0..=TEXT_BYTES_MAX + 1 - LANES {
            let mut blocks = Blocks::new();
            for lane in 0..LANES {
                let message = &text[..first + lane];
                let (key, id) = message.split_at(message.len() / 3);
                assert!(blocks.set(lane, ["", key, id, ""]));
            }
            for (lane, head) in blocks.heads().into_iter().flatten().enumerate() {
                let whole = Sha1::digest(&text[..first + lane]);
                assert_eq!(head.to_be_bytes(), whole[..8], "{} bytes", first + lane);
            }
        }
        assert!(!Blocks::new().set(0, [text, "", "", ""]));
    }
}
