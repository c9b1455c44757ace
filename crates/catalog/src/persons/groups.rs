//! Group types and groups.

use model::group::Group;
use model::{ProjectId, Timestamp, Window};
use serde::Serialize;

use super::Groups;
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::bulk::id_values;
use crate::db::select::Condition;
use crate::db::{Row, args};
use crate::objects::edit::set;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// A group type with its display names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupType {
    pub index: u8,
    pub name: String,
    pub name_singular: Option<String>,
    pub name_plural: Option<String>,
    pub created_at: Timestamp,
}

impl GroupType {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            index: type_index(row)?,
            name: row.get("name")?,
            name_singular: row.get("name_singular")?,
            name_plural: row.get("name_plural")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl Logged for GroupType {
    const SCOPE: &'static str = "Group";

    fn item_id(&self) -> String {
        self.index.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

/// A user's change to a group, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupActivity {
    Created,
    Updated,
    PropertyDeleted,
}

/// The group that a log entry is about.
#[derive(Serialize)]
struct LoggedGroup<'a>(u8, &'a str);

impl Logged for LoggedGroup<'_> {
    const SCOPE: &'static str = GroupType::SCOPE;

    /// Includes the type, since groups of two types may share a key.
    fn item_id(&self) -> String {
        format!("{}:{}", self.0, self.1)
    }

    fn item_name(&self) -> Option<String> {
        Some(self.1.to_owned())
    }
}

/// New display names of a group type; absent names stay unchanged.
#[derive(Clone, Debug)]
pub struct GroupTypeChange {
    pub index: u8,
    pub name_singular: Option<Option<String>>,
    pub name_plural: Option<Option<String>>,
}

/// Filters of a list of one type's groups; an absent filter matches everything.
#[derive(Debug, Default)]
pub struct GroupFilter {
    pub key: Option<String>,
    /// A substring of the key or the name.
    pub search: Option<String>,
    /// Keyset pagination: groups after this position.
    pub after: Option<(Timestamp, String)>,
}

const TYPE_COLUMNS: &str = "type_index, name, name_singular, name_plural, created_at";
pub(crate) const COLUMNS: &str = "g.type_index, g.group_key, g.properties, g.version, g.created_at";

impl Groups<'_> {
    pub async fn types(self, project: ProjectId) -> Result<Vec<GroupType>> {
        let sql = format!(
            "SELECT {TYPE_COLUMNS} FROM group_types WHERE project_id = $1 ORDER BY type_index"
        );
        let rows = self.core.db.all(sql, args![project]).await?;
        rows.iter().map(GroupType::read).collect()
    }

    /// Sets display names, all or none; [`crate::Error::NotFound`] if a type is missing.
    pub async fn name_types(self, actor: &Actor, changes: Vec<GroupTypeChange>) -> Result<()> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        for change in changes {
            let lock = tx.dialect().for_update();
            let sql = format!(
                "SELECT {TYPE_COLUMNS} FROM group_types \
                 WHERE project_id = $1 AND type_index = $2{lock}"
            );
            let row = tx.one(sql, args![project, i64::from(change.index)]).await?;
            let before = GroupType::read(&row)?;
            let mut after = before.clone();
            set(&mut after.name_singular, change.name_singular);
            set(&mut after.name_plural, change.name_plural);
            let (singular, plural) = (after.name_singular.clone(), after.name_plural.clone());
            tx.run(
                "UPDATE group_types SET name_singular = $3, name_plural = $4 \
                 WHERE project_id = $1 AND type_index = $2",
                args![project, i64::from(change.index), singular, plural],
            )
            .await?;
            tx.log_updated(actor, &before, &after, self.core.clock.now()).await?;
        }
        tx.commit().await
    }

    /// Logs a user's change to a group. The journal carries the change itself.
    pub async fn log(
        self,
        actor: &Actor,
        (index, key): (u8, &str),
        activity: GroupActivity,
    ) -> Result<()> {
        let change = || Change {
            scope: GroupType::SCOPE.into(),
            action: ChangeAction::Changed,
            field: Some("properties".into()),
            before: None,
            after: None,
        };
        let (word, changes) = match activity {
            GroupActivity::Created => ("created", Vec::new()),
            GroupActivity::Updated => ("updated", vec![change()]),
            GroupActivity::PropertyDeleted => ("delete_property", vec![change()]),
        };
        let mut tx = self.core.db.begin().await?;
        tx.log(actor, word, &LoggedGroup(index, key), changes, self.core.clock.now()).await?;
        tx.commit().await
    }

    /// Newest first, at most `limit`.
    pub async fn list(
        self,
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
            let name = self.core.db.dialect().json_text("g.properties", "name");
            condition.and_search(&["g.group_key", &name], None, search);
        }
        if let Some((at, key)) = &filter.after {
            condition
                .and_before(("g.created_at", (*at).into()), ("g.group_key", key.as_str().into()));
        }
        let order = "g.created_at DESC, g.group_key DESC";
        let window = Window { limit, offset: 0 };
        let rows = self.core.db.slice(COLUMNS, "groups g", condition, order, window).await?;
        rows.iter().map(read_group).collect()
    }

    /// Groups of a type after the key `after`, by key.
    pub async fn scan(
        self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM groups g \
             WHERE g.project_id = $1 AND g.type_index = $2 AND g.group_key > $3 \
             ORDER BY g.group_key LIMIT $4"
        );
        let after = after.unwrap_or_default();
        let rows = self.core.db.all(&sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(read_group).collect()
    }

    /// Name and index of each project's group types.
    pub async fn types_of_projects(
        self,
        projects: &[ProjectId],
    ) -> Result<HashMap<ProjectId, Vec<(String, u8)>>> {
        let sql = "SELECT project_id, name, type_index FROM group_types \
                   WHERE project_id IN {list} ORDER BY type_index";
        let mut types: HashMap<ProjectId, Vec<(String, u8)>> = HashMap::new();
        for row in self.core.db.all_in(sql, args![], &id_values(projects)).await? {
            let kind = (row.get("name")?, type_index(&row)?);
            types.entry(row.get("project_id")?).or_default().push(kind);
        }
        Ok(types)
    }

    /// The groups that exist; one statement per type.
    pub async fn by_key(self, project: ProjectId, wanted: &[(u8, &str)]) -> Result<Vec<Group>> {
        let mut by_type: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
        for (index, key) in wanted {
            by_type.entry(*index).or_default().push(key);
        }
        let sql = "SELECT type_index, group_key, properties, version, created_at FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key IN {list}";
        let mut groups = Vec::new();
        for (index, wanted) in by_type {
            let fixed = args![project, i64::from(index)];
            let rows = self.core.db.all_in(sql, fixed, &id_values(&wanted)).await?;
            groups.extend(rows.iter().map(read_group).collect::<Result<Vec<_>>>()?);
        }
        Ok(groups)
    }
}

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
