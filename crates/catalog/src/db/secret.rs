//! Secrets: generating, hashing and masking them.

use std::fmt;

use argon2::{Argon2, PasswordHasher, PasswordVerifier, password_hash::phc::PasswordHash};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

use crate::{Error, Result};

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 43 base-62 characters carry 256 random bits.
const SECRET_CHARS: usize = 43;
const MASK_EDGE_CHARS: usize = 4;

/// A secret value; never logged, and read only by [`Secret::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn given(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// `prefix` and random base-62 characters.
    pub fn random(prefix: &str) -> Self {
        Self(format!("{prefix}{}", base62(SECRET_CHARS)))
    }

    /// Random bytes as URL-safe base64 without padding.
    pub(crate) fn random_base64(bytes: usize) -> Self {
        let mut random = vec![0_u8; bytes];
        SysRng.try_fill_bytes(&mut random).expect("the system's randomness answers");
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// First and last four characters: enough to recognize, too few to use.
    pub fn mask(&self) -> String {
        let letters: Vec<char> = self.0.chars().collect();
        if letters.len() < 3 * MASK_EDGE_CHARS {
            return "********".into();
        }
        let (head, tail) =
            (&letters[..MASK_EDGE_CHARS], &letters[letters.len() - MASK_EDGE_CHARS..]);
        format!("{}...{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
    }

    pub fn hash(&self) -> String {
        hash_token(&self.0)
    }
}

fn base62(chars: usize) -> String {
    let mut text = String::with_capacity(chars + 64);
    let mut bytes = [0_u8; 64];
    while text.len() < chars {
        SysRng.try_fill_bytes(&mut bytes).expect("the system's randomness answers");
        // Rejection sampling: larger bytes would favor some characters.
        for byte in bytes.iter().filter(|byte| **byte < 248) {
            text.push(BASE62[usize::from(byte % 62)] as char);
        }
    }
    text.truncate(chars);
    text
}

/// A random id that cannot be parsed as a number.
pub(crate) fn short_name(chars: usize) -> String {
    loop {
        let name = base62(chars);
        if name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            return name;
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The stored form of a token, also used for lookups. Tokens carry 256 bits, so a fast hash is
/// enough.
pub fn hash_token(value: &str) -> String {
    let digest = Sha256::digest(value.as_bytes());
    digest.iter().fold(String::from("sha256$"), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).expect("four bits"));
        text.push(char::from_digit(u32::from(byte & 15), 16).expect("four bits"));
        text
    })
}

/// The hash of no password, as slow to verify as any other: a login with an unknown email address
/// takes as long as with a known one.
pub const DUMMY_PASSWORD_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$aGVkZ2Vyb3doZWRnZXJvdw$W1Yqn3pWJcTsRI0rX8Yvx9l7q2n8l0C3yq2b0VdK0pE";

/// Argon2id; deliberately slow, so callers run it on a blocking thread.
pub fn hash_password(password: &str) -> Result<String> {
    Argon2::default()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|why| Error::corrupt("password", why))
}

pub fn verify_password(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_masked_and_not_printed() {
        let secret = Secret::random("phx_");
        assert_eq!(secret.reveal().len(), 47);
        assert!(secret.reveal()[4..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(secret, Secret::random("phx_"));
        assert_eq!(Secret::given("phx_abcdefghwxyz").mask(), "phx_...wxyz");
        assert_eq!(Secret::given("short").mask(), "********");
        assert!(!format!("{secret:?}").contains(secret.reveal()));
    }

    #[test]
    fn a_password_hash_verifies_only_its_password() {
        let hash = hash_password("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(verify_password("correct horse", &hash));
        assert!(!verify_password("correct horse ", &hash));
        assert!(!verify_password("correct horse", "not a hash"));
    }

    #[test]
    fn the_dummy_password_hash_costs_as_much_as_a_real_one() {
        let real = hash_password("correct horse").unwrap();
        let (real, nobodys) =
            (PasswordHash::new(&real).unwrap(), PasswordHash::new(DUMMY_PASSWORD_HASH).unwrap());
        assert_eq!(nobodys.algorithm, real.algorithm);
        assert_eq!(nobodys.version, real.version);
        assert_eq!(nobodys.params, real.params);
        let length = |hash: &PasswordHash| hash.hash.map(|output| output.len());
        assert_eq!(length(&nobodys), length(&real));
        assert!(!verify_password("", DUMMY_PASSWORD_HASH));
    }
}
