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

/// Buckets of one identifier that were worked out together.
pub(crate) struct Buckets<'c> {
    identifier: &'c str,
    /// Of each flag, by [`Kind`]; not a number where there is none.
    known: Vec<[f64; 2]>,
}

impl<'c> Buckets<'c> {
    pub(crate) fn none() -> Self {
        Self { identifier: "", known: Vec::new() }
    }

    /// `wanted` are flags by their place among `keys`.
    pub(crate) fn of<'k>(
        identifier: &'c str,
        wanted: &[(u32, Kind)],
        flags: usize,
        key: impl Fn(usize) -> &'k str,
    ) -> Self {
        if identifier.is_empty() || wanted.len() < LANES {
            return Self::none();
        }
        let mut known = vec![[f64::NAN; 2]; flags];
        let mut blocks = Blocks::new();
        for some in wanted.chunks(LANES) {
            let mut fits = [false; LANES];
            for (lane, (flag, kind)) in some.iter().enumerate() {
                let parts = [key(*flag as usize), ".", identifier, kind.salt()];
                fits[lane] = blocks.set(lane, parts);
            }
            let Some(heads) = blocks.heads() else { return Self::none() };
            for (lane, (flag, kind)) in some.iter().enumerate().filter(|(lane, _)| fits[*lane]) {
                known[*flag as usize][*kind as usize] = share(heads[lane]);
            }
        }
        Self { identifier, known }
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
