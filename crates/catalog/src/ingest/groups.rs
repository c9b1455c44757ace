//! Group types and groups, as the pipeline loads and writes them.

use std::collections::{BTreeMap, HashMap};

use model::group::Group;
use model::{ProjectId, Timestamp};

use super::{ProjectChanges, keys};
use crate::bulk::Rows;
use crate::db::{Row, Tx, args};
use crate::{Catalog, Error, Result};

pub(crate) fn read_group(row: &Row) -> Result<Group> {
    Ok(Group {
        index: type_index(row)?,
        key: row.get("group_key")?,
        properties: row.json("properties")?,
        version: row.get("version")?,
        created_at: row.get("created_at")?,
    })
}

pub(crate) fn type_index(row: &Row) -> Result<u8> {
    let index: i64 = row.get("type_index")?;
    u8::try_from(index).map_err(|why| Error::corrupt("type_index", why))
}

impl Catalog {
    /// Names and indexes of each project's group types.
    pub async fn group_types_of(
        &self,
        projects: &[ProjectId],
    ) -> Result<HashMap<ProjectId, Vec<(String, u8)>>> {
        let sql = "SELECT project_id, name, type_index FROM group_types \
                   WHERE project_id IN {list} ORDER BY type_index";
        let mut types: HashMap<ProjectId, Vec<(String, u8)>> = HashMap::new();
        for row in self.db.all_in(sql, args![], &keys(projects)).await? {
            let kind = (row.get("name")?, type_index(&row)?);
            types.entry(row.get("project_id")?).or_default().push(kind);
        }
        Ok(types)
    }

    /// Those of the groups that are there; at most one statement for each type.
    pub async fn groups_by_key(
        &self,
        project: ProjectId,
        wanted: &[(u8, &str)],
    ) -> Result<Vec<Group>> {
        let mut by_type: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
        for (index, key) in wanted {
            by_type.entry(*index).or_default().push(key);
        }
        let sql = "SELECT type_index, group_key, properties, version, created_at FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key IN {list}";
        let mut found = Vec::new();
        for (index, wanted) in by_type {
            let fixed = args![project, i64::from(index)];
            let rows = self.db.all_in(sql, fixed, &keys(&wanted)).await?;
            found.extend(rows.iter().map(read_group).collect::<Result<Vec<_>>>()?);
        }
        Ok(found)
    }
}

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
