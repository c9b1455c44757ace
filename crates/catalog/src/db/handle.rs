//! What the handles of all areas share.

use model::Clock;

use super::secret::Secret;
use super::vault::Vault;
use super::{Db, args};
use crate::{Error, Result};

/// Encrypted once and decrypted at every start, to check the secret key. Any string would do.
const PROOF: &str = "hedgerow";

/// What every area works with; one per catalog.
pub(crate) struct Core {
    pub db: Db,
    pub clock: Clock,
    pub vault: Vault,
}

impl Core {
    /// Checks the secret key: a catalog opens only with the key it was created with.
    pub(crate) async fn check_vault(&self) -> Result<()> {
        let sql = "SELECT vault_proof FROM instance WHERE id = 1";
        let stored = self.db.optional(sql, args![]).await?;
        if let Some(row) = stored {
            let proof: Vec<u8> = row.get("vault_proof")?;
            return self.vault.open(&proof).map(drop).map_err(|_| Error::WrongSecretKey);
        }
        let proof = self.vault.seal(&Secret::given(PROOF))?;
        let mut tx = self.db.begin().await?;
        tx.run("INSERT INTO instance (id, vault_proof) VALUES (1, $1)", args![proof]).await?;
        tx.commit().await
    }
}

/// Declares the handle of an area: a copyable reference to the [`Core`].
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a> {
            pub(crate) core: &'a $crate::db::Core,
        }

        impl<'a> $name<'a> {
            pub(crate) const fn new(core: &'a $crate::db::Core) -> Self {
                Self { core }
            }
        }
    };
}
pub(crate) use handle;
