//! Several hashes at once.
//!
//! An answer about all flags of a project hashes one id after each flag's key, and without
//! instructions for SHA-1 those hashes are a quarter of its time. What the processor does with one
//! number it can do with eight side by side; the loops below are written so that the compiler sees
//! that.

use std::array::from_fn;

/// Hashed together.
pub(crate) const LANES: usize = 8;
/// A text that fits into one block, with the byte and the length that end it.
pub(crate) const TEXT_BYTES_MAX: usize = BLOCK - 9;
const BLOCK: usize = 64;

const START: [u32; 5] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];

/// The same place of every lane.
#[derive(Clone, Copy)]
struct Word([u32; LANES]);

impl Word {
    #[inline(always)]
    fn all(value: u32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn map(self, other: Self, of: impl Fn(u32, u32) -> u32) -> Self {
        Self(from_fn(|lane| of(self.0[lane], other.0[lane])))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.map(other, u32::wrapping_add)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.map(other, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.map(other, |a, b| a | b)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.map(other, |a, b| a ^ b)
    }

    #[inline(always)]
    fn left<const BITS: u32>(self) -> Self {
        Self(self.0.map(|word| word.rotate_left(BITS)))
    }
}

/// Texts of at most [`TEXT_BYTES_MAX`] bytes, each in its block.
pub(crate) struct Blocks {
    blocks: [[u8; BLOCK]; LANES],
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { blocks: [[0; BLOCK]; LANES] }
    }

    /// Puts a text into a lane; false when it is too long.
    pub(crate) fn set(&mut self, lane: usize, parts: [&str; 4]) -> bool {
        let block = &mut self.blocks[lane];
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > TEXT_BYTES_MAX {
            return false;
        }
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

    /// The first eight bytes of each lane's SHA-1, as a number.
    pub(crate) fn heads(&self) -> [u64; LANES] {
        let word = |at: usize, lane: usize| {
            let word = self.blocks[lane][at * 4..].first_chunk().copied().unwrap_or_default();
            u32::from_be_bytes(word)
        };
        let mut words: [Word; 16] = from_fn(|at| Word(from_fn(|lane| word(at, lane))));
        let [mut a, mut b, mut c, mut d, mut e] = START.map(Word::all);
        for round in 0..80 {
            let at = round % 16;
            if round >= 16 {
                let mixed = words[(at + 13) % 16].xor(words[(at + 8) % 16]);
                words[at] = mixed.xor(words[(at + 2) % 16]).xor(words[at]).left::<1>();
            }
            let (mixed, constant) = match round {
                0..20 => (d.xor(b.and(c.xor(d))), 0x5A82_7999),
                20..40 => (b.xor(c).xor(d), 0x6ED9_EBA1),
                40..60 => (b.and(c).or(d.and(b.or(c))), 0x8F1B_BCDC),
                _ => (b.xor(c).xor(d), 0xCA62_C1D6),
            };
            let next = a.left::<5>().plus(mixed).plus(e).plus(words[at]).plus(Word::all(constant));
            (a, b, c, d, e) = (next, a, b.left::<30>(), c, d);
        }
        let (first, second) = (a.plus(Word::all(START[0])), b.plus(Word::all(START[1])));
        from_fn(|lane| u64::from(first.0[lane]) << 32 | u64::from(second.0[lane]))
    }
}

#[cfg(test)]
mod tests {
    use sha1::{Digest as _, Sha1};

    use super::*;

    #[test]
    fn each_lane_is_the_hash_of_its_text() {
        let text = "an id that is somewhat longer than any that fits into one block";
        for first in 0..=TEXT_BYTES_MAX + 1 - LANES {
            let mut blocks = Blocks::new();
            for lane in 0..LANES {
                let own = &text[..first + lane];
                let (key, id) = own.split_at(own.len() / 3);
                assert!(blocks.set(lane, ["", key, id, ""]));
            }
            for (lane, head) in blocks.heads().into_iter().enumerate() {
                let whole = Sha1::digest(&text[..first + lane]);
                assert_eq!(head.to_be_bytes(), whole[..8], "{} bytes", first + lane);
            }
        }
        assert!(!Blocks::new().set(0, [text, "", "", ""]));
    }
}
