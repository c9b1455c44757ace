//! The instance itself: which secret key it was made with, and what its operator lists.

use model::{OrganizationId, Window};

use crate::db::args;
use crate::{Catalog, Error, PersonalKey, Result, Secret, keys};

/// Sealed once and opened at every start. What it says does not matter.
const PROOF: &str = "hedgerow";

impl Catalog {
    /// A catalog opens only with the key that sealed it; the first key becomes that one.
    pub(crate) async fn check_vault(&self) -> Result<()> {
        let sql = "SELECT vault_proof FROM instance WHERE id = 1";
        let kept = self.db.optional(sql, args![]).await?;
        if let Some(row) = kept {
            let proof: Vec<u8> = row.get("vault_proof")?;
            return self.vault.open(&proof).map(drop).map_err(|_| Error::OtherKey);
        }
        let proof = self.vault.seal(&Secret::given(PROOF))?;
        let mut tx = self.db.begin().await?;
        tx.run("INSERT INTO instance (id, vault_proof) VALUES (1, $1)", args![proof]).await?;
        tx.commit().await
    }

    /// Where an operator's new users go.
    pub async fn first_organization(&self) -> Result<OrganizationId> {
        let sql = "SELECT id FROM organizations WHERE deleted_at IS NULL \
                   ORDER BY created_at, id LIMIT 1";
        self.db.one(sql, args![]).await?.get("id")
    }

    /// Everybody's keys with their owners' e-mail addresses.
    pub async fn all_keys(&self, window: Window) -> Result<Vec<(PersonalKey, String)>> {
        let sql = format!(
            "SELECT {}, u.email FROM personal_api_keys k JOIN users u ON u.id = k.user_id \
             ORDER BY u.email_lower, k.created_at, k.id LIMIT $1 OFFSET $2",
            keys::COLUMNS,
        );
        let rows = self.db.all(sql, args![window.limit, window.offset]).await?;
        rows.iter().map(|row| Ok((PersonalKey::read(row)?, row.get("email")?))).collect()
    }
}
