//! Group types and groups, as people look for them.

use model::group::Group;
use model::{ProjectId, Timestamp, Window};

use crate::db::args;
use crate::edit::set;
use crate::ingest::{read_group, type_index};
use crate::select::Condition;
use crate::{Catalog, Result};

/// A group type with what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupType {
    pub index: u8,
    pub name: String,
    pub name_singular: Option<String>,
    pub name_plural: Option<String>,
    pub created_at: Timestamp,
}

/// What people call a type from now on; absent names stay.
#[derive(Clone, Debug)]
pub struct GroupTypeChange {
    pub index: u8,
    pub name_singular: Option<Option<String>>,
    pub name_plural: Option<Option<String>>,
}

/// Which groups of one type are asked for.
#[derive(Debug, Default)]
pub struct GroupFilter {
    pub key: Option<String>,
    /// Part of the key or of the name.
    pub search: Option<String>,
    /// Only those behind this place of the list.
    pub behind: Option<(Timestamp, String)>,
}

pub(crate) const COLUMNS: &str = "g.type_index, g.group_key, g.properties, g.version, g.created_at";

impl Catalog {
    pub async fn group_types(&self, project: ProjectId) -> Result<Vec<GroupType>> {
        let sql = "SELECT type_index, name, name_singular, name_plural, created_at \
                   FROM group_types WHERE project_id = $1 ORDER BY type_index";
        let rows = self.db.all(sql, args![project]).await?;
        let types = rows.iter().map(|row| {
            Ok(GroupType {
                index: type_index(row)?,
                name: row.get("name")?,
                name_singular: row.get("name_singular")?,
                name_plural: row.get("name_plural")?,
                created_at: row.get("created_at")?,
            })
        });
        types.collect()
    }

    /// Names types, all or none; [`crate::Error::NotFound`] when one is not there.
    pub async fn name_group_types(
        &self,
        project: ProjectId,
        changes: Vec<GroupTypeChange>,
    ) -> Result<()> {
        let mut tx = self.db.begin().await?;
        for change in changes {
            let lock = tx.dialect().for_update();
            let sql = format!(
                "SELECT name_singular, name_plural FROM group_types \
                 WHERE project_id = $1 AND type_index = $2{lock}"
            );
            let row = tx.one(sql, args![project, i64::from(change.index)]).await?;
            let mut singular: Option<String> = row.get("name_singular")?;
            let mut plural: Option<String> = row.get("name_plural")?;
            set(&mut singular, change.name_singular);
            set(&mut plural, change.name_plural);
            tx.run(
                "UPDATE group_types SET name_singular = $3, name_plural = $4 \
                 WHERE project_id = $1 AND type_index = $2",
                args![project, i64::from(change.index), singular, plural],
            )
            .await?;
        }
        tx.commit().await
    }

    /// Newest first, at most `limit`.
    pub async fn groups(
        &self,
        project: ProjectId,
        index: u8,
        filter: &GroupFilter,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let values = args![project, i64::from(index)];
        let mut condition = Condition::new("g.project_id = $1 AND g.type_index = $2", values);
        if let Some(key) = &filter.key {
            condition.and("g.group_key = ?", key.as_str());
        }
        if let Some(search) = &filter.search {
            let name = self.db.dialect().json_text("g.properties", "name");
            condition.and_found_in(&["g.group_key", &name], None, search);
        }
        if let Some((at, key)) = &filter.behind {
            condition
                .and_before(("g.created_at", (*at).into()), ("g.group_key", key.as_str().into()));
        }
        let order = "g.created_at DESC, g.group_key DESC";
        let window = Window { limit, offset: 0 };
        let rows = self.db.slice(COLUMNS, "groups g", condition, order, window).await?;
        rows.iter().map(read_group).collect()
    }
}
