//! Buckets: where an identifier falls between 0 and 1. Every SDK computes the same.

use sha1::{Digest, Sha1};

/// Fifteen hexadecimal digits, all ones. As a double it is 2^60, and SDKs divide by that double.
const SCALE: f64 = 0x0FFF_FFFF_FFFF_FFFF_u64 as f64;
pub(crate) const VARIANT_SALT: &str = "variant";
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
        let head = digest.first_chunk::<8>().copied().unwrap_or_default();
        (u64::from_be_bytes(head) >> 4) as f64 / SCALE
    }
}

pub fn bucket(key: &str, identifier: &str, salt: &str) -> f64 {
    Prefix::of_flag(key).bucket(identifier, salt)
}

/// The same for every flag, so that one holdout keeps its members out of all of them.
pub fn holdout_bucket(identifier: &str) -> f64 {
    Prefix::of_holdouts().bucket(identifier, "")
}
