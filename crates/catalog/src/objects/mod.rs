//! What all user-editable objects share: soft delete, edits, tags and search.

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

/// Serializes the writers of a project's dashboards, tiles, insights, cohorts and action steps, by
/// a lock on the project's row. These reference each other in cycles; one lock taken first prevents
/// deadlocks.
pub(crate) async fn lock_dashboards(tx: &mut Tx, project: ProjectId) -> Result<()> {
    let lock = tx.dialect().for_update();
    tx.one(format!("SELECT id FROM projects WHERE id = $1{lock}"), args![project]).await.map(drop)
}
