//! Token lookups for capture and flag requests.

use model::{OrganizationId, ProjectId};

use super::{ProjectRow, Projects, columns};
use crate::Result;
use crate::db::secret::hash_token;
use crate::db::{Row, args};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub project: ProjectId,
    pub organization: OrganizationId,
}

impl TokenOwner {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self { project: row.get("id")?, organization: row.get("organization_id")? })
    }
}

impl Projects<'_> {
    /// The project of a public token (`phc_…`).
    pub async fn by_token(self, token: &str) -> Result<Option<TokenOwner>> {
        let sql = "SELECT id, organization_id FROM projects WHERE api_token = $1";
        self.core.db.optional(sql, args![token]).await?.as_ref().map(TokenOwner::read).transpose()
    }

    /// The project of a public token as a whole row, for caches.
    pub async fn row_by_token(self, token: &str) -> Result<Option<ProjectRow>> {
        let sql = format!(
            "SELECT {} FROM projects p WHERE p.api_token = $1 AND p.deleted_at IS NULL",
            columns()
        );
        self.core.db.optional(sql, args![token]).await?.as_ref().map(ProjectRow::read).transpose()
    }

    /// The project of a secret token (`phs_…`), current or backup.
    pub async fn by_secret(self, secret: &str) -> Result<Option<TokenOwner>> {
        let sql = "SELECT id, organization_id FROM projects \
                   WHERE secret_hash = $1 OR secret_backup_hash = $1";
        let row = self.core.db.optional(sql, args![hash_token(secret)]).await?;
        row.as_ref().map(TokenOwner::read).transpose()
    }
}
