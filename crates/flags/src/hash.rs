//! Bucketing: hashes an identifier to a number from 0 to 1, as all SDKs do.

use sha1::{Digest, Sha1};

use crate::sha1_lanes::{Blocks, LANES};

/// 15 hexadecimal digits of ones. As an `f64` it rounds to 2^60, which SDKs divide by.
const SCALE: f64 = 0x0FFF_FFFF_FFFF_FFFF_u64 as f64;
const VARIANT_SALT: &str = "variant";
const HOLDOUT: &str = "holdout-";

/// SHA-1 state after the flag's key, computed once per flag.
#[derive(Clone, Debug)]
pub struct Prefix(Sha1);

impl Prefix {
    pub fn of_flag(key: &str) -> Self {
        Self(Sha1::new_with_prefix(key).chain_update("."))
    }

    fn of_holdouts() -> Self {
        Self(Sha1::new_with_prefix(HOLDOUT))
    }

    /// An empty identifier is not hashed: it is always in the rollout.
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

/// The bucket, from the first eight bytes of a hash.
fn share(head: u64) -> f64 {
    (head >> 4) as f64 / SCALE
}

/// The hashes that a flag needs.
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

/// Flags whose buckets are computed together: few enough that the results are still in the CPU cache
/// when they are used.
const WINDOW: usize = 64;

/// Buckets of one identifier, computed for a window of flags ahead.
pub(crate) struct Buckets<'c, 's> {
    identifier: &'c str,
    /// Hashes still to compute, by flag index.
    pending: &'s [(u32, Kind)],
    /// Buckets of each flag so far, by [`Kind`]; NaN if not computed.
    known: Vec<[f64; 2]>,
}

impl<'c, 's> Buckets<'c, 's> {
    pub(crate) fn none() -> Self {
        Self { identifier: "", pending: &[], known: Vec::new() }
    }

    /// `pending` is sorted by flag index.
    pub(crate) fn of(identifier: &'c str, pending: &'s [(u32, Kind)]) -> Self {
        match identifier.is_empty() || pending.len() < LANES {
            true => Self::none(),
            false => Self { identifier, pending, known: Vec::new() },
        }
    }

    /// Computes the buckets of a window of flags that starts at `flag`, unless they are known.
    pub(crate) fn reach<'k>(&mut self, flag: usize, key: impl Fn(usize) -> &'k str) {
        if flag < self.known.len() || self.pending.is_empty() {
            return;
        }
        let end = flag + WINDOW;
        self.known.resize(end, [f64::NAN; 2]);
        let split = self.pending.partition_point(|(flag, _)| (*flag as usize) < end);
        let (now, later) = self.pending.split_at(split);
        self.pending = later;
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

/// Independent of the flag, so that a holdout excludes the same members from all flags.
pub fn holdout_bucket(identifier: &str) -> f64 {
    Prefix::of_holdouts().bucket(identifier, "")
}
