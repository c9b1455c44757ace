//! Property definitions: what users document about properties, next to what ingestion observes.

use model::definition::{PropertyDefinition, PropertyOwner, PropertyType};
use model::{ProjectId, Timestamp, UserId, Window};
use uuid::Uuid;

use super::{Curation, PropertyDefinitions, Users, as_strs, owner_columns};
use crate::activity::{Actor, Logged};
use crate::db::select::Condition;
use crate::db::{Row, Tx, Value, args};
use crate::objects::edit::set;
use crate::objects::tags;
use crate::{Error, Result};
use std::collections::HashMap;

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct PropertyDefinitionChange {
    pub description: Option<Option<String>>,
    pub tags: Option<Vec<String>>,
    pub property_type: Option<Option<PropertyType>>,
    pub verified: Option<bool>,
    pub hidden: Option<bool>,
}

/// Filters of a list; an absent filter matches everything.
#[derive(Debug)]
pub struct PropertyDefinitionFilter {
    pub owner: PropertyOwner,
    /// The name contains all of these.
    pub terms: Vec<String>,
    pub names: Vec<String>,
    pub excluded: Vec<String>,
    /// The list reports whether each property was observed on one of these events.
    pub events: Vec<String>,
    pub only_seen_on_events: bool,
    pub only_numerical: bool,
    /// Whether the property is a feature flag's (`$feature/…`).
    pub feature_flag: Option<bool>,
    pub exclude_hidden: bool,
    pub exclude_built_in: bool,
}

const OBJECT: &str = "property_definition";
const COLUMNS: &str = "d.id, d.name, d.property_type, d.description, d.verified, d.verified_at, \
     d.verified_by, d.hidden, d.updated_at, d.updated_by";

#[derive(Clone, PartialEq)]
struct PropertyDefinitionRow {
    id: Uuid,
    name: String,
    property_type: Option<PropertyType>,
    description: Option<String>,
    curation: Curation,
    updated_at: Timestamp,
    updated_by: Option<UserId>,
    tags: Vec<String>,
    is_seen: Option<bool>,
}

impl PropertyDefinitionRow {
    fn read(row: &Row, tags: Vec<String>) -> Result<Self> {
        let kind: Option<String> = row.get("property_type")?;
        let kind = kind.map(|text| {
            PropertyType::parse(&text).ok_or_else(|| Error::corrupt("property_type", text))
        });
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            property_type: kind.transpose()?,
            description: row.get("description")?,
            curation: Curation::read(row)?,
            updated_at: row.get("updated_at")?,
            updated_by: row.get("updated_by")?,
            tags,
            is_seen: None,
        })
    }

    fn user_ids(&self) -> [Option<UserId>; 2] {
        [self.curation.verified_by, self.updated_by]
    }

    fn into_definition(self, users: &Users) -> PropertyDefinition {
        let user = |id: Option<UserId>| users.get(&id?).cloned();
        PropertyDefinition {
            id: self.id,
            name: self.name,
            description: self.description,
            tags: self.tags,
            is_numerical: self.property_type == Some(PropertyType::Numeric),
            property_type: self.property_type,
            is_seen_on_filtered_events: self.is_seen,
            updated_at: self.updated_at,
            updated_by: user(self.updated_by),
            verified: self.curation.verified,
            verified_at: self.curation.verified_at,
            verified_by: user(self.curation.verified_by),
            hidden: self.curation.hidden,
            query_usage_30_day: None,
        }
    }

    async fn lock(tx: &mut Tx, project: ProjectId, id: Uuid) -> Result<Self> {
        let sql = format!(
            "SELECT {COLUMNS} FROM property_definitions d \
             WHERE d.project_id = $1 AND d.id = $2{}",
            tx.dialect().for_update_of("d"),
        );
        let row = tx.one(sql, args![project, id]).await?;
        let tags = tags::of_one(tx, project, OBJECT, id.to_string()).await?;
        Self::read(&row, tags)
    }
}

impl Logged for PropertyDefinition {
    const SCOPE: &'static str = "PropertyDefinition";
    const UPDATED: &'static str = "changed";
    const UNLOGGED: &'static [&'static str] = &["updated_at", "updated_by"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl PropertyDefinitionFilter {
    /// The WHERE condition, and SQL for whether a property was observed on one of the events.
    fn condition(&self, project: ProjectId) -> (Condition, String) {
        let (owner, index) = owner_columns(self.owner);
        let start = "d.project_id = $1 AND d.owner = $2 AND d.type_index = $3";
        let mut condition = Condition::new(start, args![project, owner, index]);
        let seen_sql = match self.events.is_empty() {
            true => "FALSE".to_owned(),
            false => {
                let marks = condition.bind_list(&self.events);
                format!(
                    "EXISTS (SELECT 1 FROM event_properties s WHERE s.project_id = $1 \
                     AND s.property = d.name AND s.event IN {marks})"
                )
            }
        };
        if self.only_seen_on_events {
            condition.and_sql(&seen_sql);
        } else if !self.events.is_empty() {
            // A no-op that uses the parameters, so that the count binds the same ones as the list.
            condition.and_sql(&format!("({seen_sql} OR TRUE)"));
        }
        self.terms.iter().for_each(|term| condition.and_contains("d.name", term));
        if !self.names.is_empty() {
            condition.and_in("d.name IN ?", as_strs(&self.names));
        }
        if !self.excluded.is_empty() {
            condition.and_in("d.name NOT IN ?", as_strs(&self.excluded));
        }
        for (wanted, sql) in [
            (self.only_numerical, "d.property_type = 'Numeric'"),
            (self.feature_flag == Some(true), "d.name LIKE '$feature/%'"),
            (self.feature_flag == Some(false), "d.name NOT LIKE '$feature/%'"),
            (self.exclude_hidden, "NOT d.hidden"),
            (self.exclude_built_in, "d.name NOT LIKE '$%'"),
        ] {
            if wanted {
                condition.and_sql(sql);
            }
        }
        (condition, seen_sql)
    }
}

impl PropertyDefinitions<'_> {
    pub async fn list(
        self,
        project: ProjectId,
        filter: &PropertyDefinitionFilter,
        window: Window,
    ) -> Result<(Vec<PropertyDefinition>, i64)> {
        let (condition, seen_sql) = filter.condition(project);
        let columns = format!("{COLUMNS}, {seen_sql} AS is_seen");
        let order = "is_seen DESC, d.verified DESC, d.name";
        let from = "property_definitions d";
        let (rows, total) = self.core.db.page(&columns, from, condition, order, window).await?;
        let mut stored = self.read_rows(project, &rows).await?;
        if !filter.events.is_empty() {
            for (stored, row) in stored.iter_mut().zip(&rows) {
                stored.is_seen = Some(row.get("is_seen")?);
            }
        }
        let users =
            self.core.users_among(stored.iter().flat_map(PropertyDefinitionRow::user_ids)).await?;
        Ok((stored.into_iter().map(|stored| stored.into_definition(&users)).collect(), total))
    }

    async fn read_rows(
        self,
        project: ProjectId,
        rows: &[Row],
    ) -> Result<Vec<PropertyDefinitionRow>> {
        let ids = rows
            .iter()
            .map(|row| Ok(row.get::<Uuid>("id")?.to_string()))
            .collect::<Result<Vec<_>>>()?;
        let mut tags = tags::of_many(&self.core.db, project, OBJECT, &ids).await?;
        rows.iter()
            .zip(&ids)
            .map(|(row, id)| PropertyDefinitionRow::read(row, tags.remove(id).unwrap_or_default()))
            .collect()
    }

    pub async fn get(self, project: ProjectId, id: Uuid) -> Result<PropertyDefinition> {
        let sql = format!(
            "SELECT {COLUMNS} FROM property_definitions d WHERE d.project_id = $1 AND d.id = $2"
        );
        let rows = self.core.db.all(sql, args![project, id]).await?;
        let stored = self.read_rows(project, &rows).await?;
        let users =
            self.core.users_among(stored.iter().flat_map(PropertyDefinitionRow::user_ids)).await?;
        let mut shown = stored.into_iter().map(|stored| stored.into_definition(&users));
        shown.next().ok_or(Error::NotFound)
    }

    pub async fn update(
        self,
        actor: &Actor,
        project: ProjectId,
        id: Uuid,
        change: PropertyDefinitionChange,
    ) -> Result<PropertyDefinition> {
        let mut tx = self.core.db.begin().await?;
        let before = PropertyDefinitionRow::lock(&mut tx, project, id).await?;
        let now = self.core.clock.now();
        let mut after = before.clone();
        let (verified, hidden) = (change.verified, change.hidden);
        after.curation.change("A property", verified, hidden, actor.user, now)?;
        set(&mut after.description, change.description);
        set(&mut after.tags, change.tags);
        set(&mut after.property_type, change.property_type);
        let is_same = after == before;
        if !is_same {
            (after.updated_at, after.updated_by) = (now, actor.user);
            save(&mut tx, project, &before, &after).await?;
        }
        let users = tx.users_among(before.user_ids().into_iter().chain(after.user_ids())).await?;
        let (before, after) = (before.into_definition(&users), after.into_definition(&users));
        if !is_same {
            tx.log_updated(actor, &before, &after, now).await?;
            // The next typed value sets it.
            if after.property_type.is_none() {
                tx.invalidate_definitions();
            }
            tx.commit().await?;
        }
        Ok(after)
    }

    /// Deletes the definition; the next observation of the property creates it again.
    pub async fn delete(self, actor: &Actor, project: ProjectId, id: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let deleted = PropertyDefinitionRow::lock(&mut tx, project, id).await?;
        tags::replace(&mut tx, project, OBJECT, id.to_string(), &[]).await?;
        tx.run("DELETE FROM property_definitions WHERE id = $1", args![id]).await?;
        let deleted = deleted.into_definition(&Users::new());
        tx.log_deleted(actor, &deleted, self.core.clock.now()).await?;
        tx.invalidate_definitions();
        tx.commit().await
    }

    /// The types of those properties that are not strings; group properties only if asked for.
    pub async fn non_string_types(
        self,
        project: ProjectId,
        names: impl IntoIterator<Item = &str>,
        with_groups: bool,
    ) -> Result<HashMap<(PropertyOwner, String), PropertyType>> {
        let names: Vec<Value> = names.into_iter().map(Into::into).collect();
        let (text, mut typed) = (PropertyType::String.as_str(), HashMap::new());
        // Each name is one index lookup; these are the index's leading columns.
        let of_events = "owner IN ('event', 'person') AND type_index = -1";
        let of_groups = "owner = 'group' AND type_index IN (0, 1, 2, 3, 4)";
        for of in [Some(of_events), with_groups.then_some(of_groups)].into_iter().flatten() {
            let sql = format!(
                "SELECT owner, type_index, name, property_type FROM property_definitions \
                 WHERE project_id = $1 AND property_type IS NOT NULL AND property_type <> $2 \
                 AND {of} AND name IN {{list}}"
            );
            for row in self.core.db.all_in(&sql, args![project, text], &names).await? {
                let owner: String = row.get("owner")?;
                let index: i64 = row.get("type_index")?;
                let owner = match owner.as_str() {
                    "event" => PropertyOwner::Event,
                    "person" => PropertyOwner::Person,
                    _ => PropertyOwner::Group(index as u8),
                };
                let kind: String = row.get("property_type")?;
                if let Some(kind) = PropertyType::parse(&kind) {
                    typed.insert((owner, row.get("name")?), kind);
                }
            }
        }
        Ok(typed)
    }
}

async fn save(
    tx: &mut Tx,
    project: ProjectId,
    before: &PropertyDefinitionRow,
    after: &PropertyDefinitionRow,
) -> Result<()> {
    tx.run(
        "UPDATE property_definitions SET description = $2, property_type = $3, verified = $4, \
         verified_at = $5, verified_by = $6, hidden = $7, updated_at = $8, updated_by = $9 \
         WHERE id = $1",
        args![
            after.id,
            after.description.as_deref(),
            after.property_type.map(PropertyType::as_str),
            after.curation.verified,
            after.curation.verified_at,
            after.curation.verified_by,
            after.curation.hidden,
            after.updated_at,
            after.updated_by,
        ],
    )
    .await?;
    if after.tags != before.tags {
        tags::replace(tx, project, OBJECT, after.id.to_string(), &after.tags).await?;
    }
    Ok(())
}
