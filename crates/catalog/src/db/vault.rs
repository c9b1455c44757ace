//! Encrypts secrets that must be shown again: project secret tokens, sharing tokens, flag payloads.

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

use super::secret::Secret;
use crate::{Error, Result};

const NONCE_BYTES: usize = 24;

/// The instance's encryption key. A sealed value is the nonce followed by the ciphertext.
pub struct Vault(XChaCha20Poly1305);

impl Vault {
    /// Accepts any string: it is hashed to the cipher's key length.
    pub fn new(key: &Secret) -> Self {
        let digest = Sha256::digest(key.reveal().as_bytes());
        Self(XChaCha20Poly1305::new(&digest))
    }

    pub fn seal(&self, secret: &Secret) -> Result<Vec<u8>> {
        let mut sealed = vec![0_u8; NONCE_BYTES];
        SysRng.try_fill_bytes(&mut sealed).map_err(|why| Error::corrupt("randomness", why))?;
        let nonce = nonce(&sealed)?;
        let text = self
            .0
            .encrypt(&nonce, secret.reveal().as_bytes())
            .map_err(|why| Error::corrupt("secret", why))?;
        sealed.extend(text);
        Ok(sealed)
    }

    /// Fails if the value was sealed with another key.
    pub fn open(&self, sealed: &[u8]) -> Result<Secret> {
        let unreadable = || Error::corrupt("sealed secret", "sealed with another secret key");
        let (head, text) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(unreadable)?;
        let text = self.0.decrypt(&nonce(head)?, text).map_err(|_| unreadable())?;
        String::from_utf8(text).map(Secret::given).map_err(|_| unreadable())
    }
}

fn nonce(bytes: &[u8]) -> Result<XNonce> {
    XNonce::try_from(bytes).map_err(|why| Error::corrupt("nonce", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_values_open_only_with_their_key() {
        let (vault, other) = (Vault::new(&Secret::given("a")), Vault::new(&Secret::given("b")));
        let secret = Secret::given("phs_x");
        let sealed = vault.seal(&secret).unwrap();
        assert_ne!(sealed, vault.seal(&secret).unwrap());
        assert_eq!(vault.open(&sealed).unwrap(), secret);
        assert!(other.open(&sealed).is_err());
        assert!(vault.open(&sealed[..20]).is_err());
    }
}
