//! What all objects that people edit share: soft delete, edits in one transaction, tags, search.

pub(crate) mod edit;
pub(crate) mod search;
pub(crate) mod tags;

use model::ProjectId;

use crate::Result;
use crate::db::{Tx, args, handle};

handle! {
    /// Objects of several kinds at once.
    Objects
}

/// Whoever writes dashboards, tiles or insights of a project does so alone.
pub(crate) async fn lock_dashboards(tx: &mut Tx, project: ProjectId) -> Result<()> {
    let lock = tx.dialect().for_update();
    tx.one(format!("SELECT id FROM projects WHERE id = $1{lock}"), args![project]).await.map(drop)
}
