//! Buckets: where an identifier falls between 0 and 1. Every SDK computes the same.

use sha1::{Digest, Sha1};

use crate::lanes::{Blocks, LANES};

/// Fifteen hexadecimal digits, all ones. As a double it is 2^60, and SDKs divide by that double.
const SCALE: f64 = 0x0FFF_FFFF_FFFF_FFFF_u64 as f64;
const VARIANT_SALT: &str = "variant";
const HOLDOUT: &str = "holdout-";

/// A flag's part of what is hashed, taken in once.
#[derive(Clone, Debug)]
pub struct Prefix(Sha1);

impl Prefix {
    pub fn of_flag(key: &str) -> Self {
        Self(Sha1::new_with_prefix(key).chain_update("."))
    }

    fn of_holdouts() -> Self {
        Self(Sha1::new_with_prefix(HOLDOUT))
    }

    /// An empty identifier is not hashed: it is in every rollout.
    pub fn bucket(&self, identifier: &str, salt: &str) -> f64 {
        if identifier.is_empty() {
            return 0.0;
        }
        let mut hasher = self.0.clone();
        hasher.update(identifier);
        if !salt.is_empty() {
            hasher.update(salt);
        }
        let digest = hasher.finalize();
        share(u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()))
    }
}

/// Of the first eight bytes of a hash.
fn share(head: u64) -> f64 {
    (head >> 4) as f64 / SCALE
}

/// What a flag hashes for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rollout,
    Variant,
}

impl Kind {
    pub(crate) const fn salt(self) -> &'static str {
        match self {
            Self::Rollout => "",
            Self::Variant => VARIANT_SALT,
        }
    }
}

/// Flags whose buckets are worked out together: few enough that they are still at hand when they
/// are decided, of however many.
const WINDOW: usize = 64;

/// Buckets of one identifier, worked out some flags ahead.
pub(crate) struct Buckets<'c, 's> {
    identifier: &'c str,
    /// What is still to be worked out, in the order of flags.
    wanted: &'s [(u32, Kind)],
    /// Of each flag so far, by [`Kind`]; not a number where there is none.
    known: Vec<[f64; 2]>,
}

impl<'c, 's> Buckets<'c, 's> {
    pub(crate) fn none() -> Self {
        Self { identifier: "", wanted: &[], known: Vec::new() }
    }

    /// `wanted` are flags by their place, in that order.
    pub(crate) fn of(identifier: &'c str, wanted: &'s [(u32, Kind)]) -> Self {
        match identifier.is_empty() || wanted.len() < LANES {
            true => Self::none(),
            false => Self { identifier, wanted, known: Vec::new() },
        }
    }

    /// Has the buckets of a flag and those behind it ready.
    pub(crate) fn reach<'k>(&mut self, flag: usize, key: impl Fn(usize) -> &'k str) {
        if flag < self.known.len() || self.wanted.is_empty() {
            return;
        }
        let end = flag + WINDOW;
        self.known.resize(end, [f64::NAN; 2]);
        let split = self.wanted.partition_point(|(flag, _)| (*flag as usize) < end);
        let (now, later) = self.wanted.split_at(split);
        self.wanted = later;
        let mut blocks = Blocks::new();
        for some in now.chunks(LANES) {
            let mut fits = [false; LANES];
            for (lane, (flag, kind)) in some.iter().enumerate() {
                let parts = [key(*flag as usize), ".", self.identifier, kind.salt()];
                fits[lane] = blocks.set(lane, parts);
            }
            let Some(heads) = blocks.heads() else { return };
            for (lane, (flag, kind)) in some.iter().enumerate().filter(|(lane, _)| fits[*lane]) {
                self.known[*flag as usize][*kind as usize] = share(heads[lane]);
            }
        }
    }

    pub(crate) fn get(&self, flag: usize, kind: Kind, identifier: &str) -> Option<f64> {
        let bucket = self.known.get(flag)?[kind as usize];
        (!bucket.is_nan() && identifier == self.identifier).then_some(bucket)
    }
}

pub fn bucket(key: &str, identifier: &str, salt: &str) -> f64 {
    Prefix::of_flag(key).bucket(identifier, salt)
}

/// The same for every flag, so that one holdout keeps its members out of all of them.
pub fn holdout_bucket(identifier: &str) -> f64 {
    Prefix::of_holdouts().bucket(identifier, "")
}
