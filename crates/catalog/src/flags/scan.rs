//! Scans all groups of a project, to estimate whom a flag reaches.

use model::ProjectId;
use model::group::Group;

use super::Flags;
use crate::Result;
use crate::db::args;
use crate::persons::groups::read_group;

impl Flags<'_> {
    /// The groups of a type after the key `after`.
    pub async fn scan_groups(
        self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let sql = "SELECT type_index, group_key, properties, version, created_at FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key > $3 \
                   ORDER BY group_key LIMIT $4";
        let after = after.unwrap_or_default();
        let rows = self.core.db.all(sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(read_group).collect()
    }
}
