//! Writes the group types and groups of a batch.

use model::Timestamp;

use super::ProjectChanges;
use crate::Result;
use crate::db::bulk::Rows;
use crate::db::{Tx, args};

pub(super) async fn write(tx: &mut Tx, changes: &ProjectChanges, now: Timestamp) -> Result<()> {
    let project = changes.project;
    let mut rows = Rows::new(4);
    for (name, index) in &changes.group_types {
        rows.push(args![project, i64::from(*index), name.as_str(), now]);
    }
    let head = "INSERT INTO group_types (project_id, type_index, name, created_at)";
    tx.write(head, rows, "").await?;
    let mut rows = Rows::new(6);
    for group in &changes.groups {
        rows.push(args![
            project,
            i64::from(group.index),
            group.key.as_str(),
            serde_json::Value::Object(group.properties.clone()).to_string(),
            group.version,
            group.created_at,
        ]);
    }
    let head = "INSERT INTO groups \
                (project_id, type_index, group_key, properties, version, created_at)";
    let tail = "ON CONFLICT (project_id, type_index, group_key) DO UPDATE \
                SET properties = excluded.properties, version = excluded.version, \
                created_at = excluded.created_at";
    tx.write(head, rows, tail).await
}
