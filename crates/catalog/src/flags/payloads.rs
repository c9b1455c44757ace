//! Encrypted payloads: the filters have a placeholder, the vault the value.

use model::flag::FeatureFlag;
use model::flag::filters::{Fields, REDACTED_PAYLOAD};
use serde_json::{Map, Value};

use super::Flags;
use crate::db::secret::Secret;
use crate::{Error, Result};

impl Flags<'_> {
    /// The flag with decrypted payloads.
    pub fn reveal_payloads(self, mut flag: FeatureFlag) -> Result<FeatureFlag> {
        let mut filters = std::mem::take(&mut flag.filters);
        self.show_payloads(&flag, &mut filters)?;
        flag.filters = filters;
        Ok(flag)
    }

    /// Replaces placeholders by the decrypted payloads of `flag`.
    pub(super) fn show_payloads(self, flag: &FeatureFlag, filters: &mut Fields) -> Result<()> {
        let Some(sealed) = &flag.sealed_payloads else { return Ok(()) };
        let secret = self.core.vault.open(sealed)?;
        let stored: Map<String, Value> =
            serde_json::from_str(secret.reveal()).map_err(|why| Error::corrupt("payloads", why))?;
        let Some(Value::Object(payloads)) = filters.get_mut("payloads") else { return Ok(()) };
        for (key, payload) in payloads {
            if payload.as_str() == Some(REDACTED_PAYLOAD)
                && let Some(text) = stored.get(key)
            {
                *payload = text.clone();
            }
        }
        Ok(())
    }

    /// Encrypts payloads, if the flag requires it.
    pub(super) fn hide_payloads(self, flag: &mut FeatureFlag) -> Result<()> {
        if !flag.has_encrypted_payloads {
            flag.sealed_payloads = None;
            return Ok(());
        }
        let mut filters = std::mem::take(&mut flag.filters);
        self.show_payloads(flag, &mut filters)?;
        if let Some(Value::Object(payloads)) = filters.get_mut("payloads") {
            let text = Value::Object(payloads.clone()).to_string();
            flag.sealed_payloads = Some(self.core.vault.seal(&Secret::given(text))?);
            payloads.values_mut().for_each(|payload| *payload = REDACTED_PAYLOAD.into());
        }
        flag.filters = filters;
        Ok(())
    }
}
