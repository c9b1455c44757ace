//! Event definitions: what users document about events, next to what ingestion observes.

use model::definition::{Day, EnforcementMode, EventDefinition, VOLUME_DAYS};
use model::{ProjectId, Timestamp, UserId, Window};
use uuid::Uuid;

use super::{Curation, EventDefinitions, Users, as_strs};
use crate::activity::{Actor, Logged};
use crate::db::select::Condition;
use crate::db::{Row, Tx, args};
use crate::objects::edit::set;
use crate::objects::tags;
use crate::{Error, Result};

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct EventDefinitionChange {
    pub description: Option<Option<String>>,
    pub owner: Option<Option<UserId>>,
    pub tags: Option<Vec<String>>,
    pub verified: Option<bool>,
    pub hidden: Option<bool>,
    pub default_columns: Option<Vec<String>>,
    pub primary_property: Option<Option<String>>,
    pub enforcement_mode: Option<EnforcementMode>,
}

/// Filters of a list; an absent filter matches everything.
#[derive(Debug, Default)]
pub struct EventDefinitionFilter {
    /// The name contains all of these.
    pub terms: Vec<String>,
    pub origin: Option<Origin>,
    pub names: Vec<String>,
    pub excluded: Vec<String>,
    /// Tagged with any of these.
    pub tags: Vec<String>,
    /// Built-in events count as verified.
    pub verified: Option<bool>,
    pub exclude_hidden: bool,
    /// Excludes events last seen before this; events never seen stay.
    pub seen_since: Option<Timestamp>,
    pub order: Vec<(EventDefinitionOrder, SortOrder)>,
}

/// Whether PostHog's SDKs or the project chose an event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Names with a leading `$`.
    BuiltIn,
    Custom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventDefinitionOrder {
    Name,
    LastSeen,
    LastSeenDay,
    Created,
    CreatedDay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    Ascending,
    Descending,
}

const OBJECT: &str = "event_definition";
const DAY_MICROS: i64 = 86_400_000_000;
const COLUMNS: &str = "e.id, e.name, e.description, e.owner_id, e.verified, e.verified_at, \
     e.verified_by, e.hidden, e.enforcement_mode, e.primary_property, e.default_columns, \
     e.created_at, e.created_by, e.last_seen_at, e.updated_at, e.updated_by";

/// With the event count of the last [`VOLUME_DAYS`] days.
fn columns(now: Timestamp) -> String {
    let Day(last_unwanted) = Day::of(now).minus(VOLUME_DAYS);
    format!(
        "{COLUMNS}, (SELECT CAST(COALESCE(SUM(v.events), 0) AS BIGINT) FROM event_volumes v \
         WHERE v.project_id = e.project_id AND v.event = e.name AND v.day > {last_unwanted}) \
         AS volume"
    )
}

/// A row, with users as ids.
#[derive(Clone, PartialEq)]
struct EventDefinitionRow {
    id: Uuid,
    name: String,
    description: Option<String>,
    owner: Option<UserId>,
    curation: Curation,
    enforcement_mode: EnforcementMode,
    primary_property: Option<String>,
    default_columns: Vec<String>,
    created_at: Option<Timestamp>,
    created_by: Option<UserId>,
    last_seen_at: Option<Timestamp>,
    updated_at: Timestamp,
    updated_by: Option<UserId>,
    tags: Vec<String>,
    volume: i64,
}

impl EventDefinitionRow {
    fn read(row: &Row, tags: Vec<String>) -> Result<Self> {
        let mode: String = row.get("enforcement_mode")?;
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            description: row.get("description")?,
            owner: row.get("owner_id")?,
            curation: Curation::read(row)?,
            enforcement_mode: EnforcementMode::parse(&mode)
                .ok_or_else(|| Error::corrupt("enforcement_mode", &mode))?,
            primary_property: row.get("primary_property")?,
            default_columns: row.json("default_columns")?,
            created_at: row.get("created_at")?,
            created_by: row.get("created_by")?,
            last_seen_at: row.get("last_seen_at")?,
            updated_at: row.get("updated_at")?,
            updated_by: row.get("updated_by")?,
            tags,
            volume: row.get("volume")?,
        })
    }

    fn user_ids(&self) -> [Option<UserId>; 4] {
        [self.owner, self.curation.verified_by, self.created_by, self.updated_by]
    }

    fn into_definition(self, users: &Users) -> EventDefinition {
        let user = |id: Option<UserId>| users.get(&id?).cloned();
        EventDefinition {
            id: self.id,
            name: self.name,
            owner: user(self.owner),
            description: self.description,
            tags: self.tags,
            created_at: self.created_at,
            updated_at: self.updated_at,
            updated_by: user(self.updated_by),
            last_seen_at: self.last_seen_at,
            last_updated_at: self.updated_at,
            verified: self.curation.verified,
            verified_at: self.curation.verified_at,
            verified_by: user(self.curation.verified_by),
            hidden: self.curation.hidden,
            enforcement_mode: self.enforcement_mode,
            primary_property: self.primary_property,
            is_action: false,
            action_id: None,
            is_calculating: false,
            last_calculated_at: None,
            created_by: user(self.created_by),
            post_to_slack: false,
            default_columns: self.default_columns,
            media_preview_urls: Vec::new(),
            volume_30_day: self.volume,
            query_usage_30_day: None,
        }
    }

    async fn lock(tx: &mut Tx, project: ProjectId, id: Uuid, now: Timestamp) -> Result<Self> {
        let sql = format!(
            "SELECT {} FROM event_definitions e WHERE e.project_id = $1 AND e.id = $2{}",
            columns(now),
            tx.dialect().for_update_of("e"),
        );
        let row = tx.one(sql, args![project, id]).await?;
        let tags = tags::of_one(tx, project, OBJECT, id.to_string()).await?;
        Self::read(&row, tags)
    }
}

impl Logged for EventDefinition {
    const SCOPE: &'static str = "EventDefinition";
    const UPDATED: &'static str = "changed";
    const UNLOGGED: &'static [&'static str] =
        &["updated_at", "updated_by", "last_updated_at", "last_seen_at", "volume_30_day"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl EventDefinitionFilter {
    fn condition(&self, project: ProjectId) -> Condition {
        let mut condition = Condition::new("e.project_id = $1", args![project]);
        self.terms.iter().for_each(|term| condition.and_contains("e.name", term));
        match self.origin {
            Some(Origin::BuiltIn) => condition.and_sql("e.name LIKE '$%'"),
            Some(Origin::Custom) => condition.and_sql("e.name NOT LIKE '$%'"),
            None => {}
        }
        if !self.names.is_empty() {
            condition.and_in("e.name IN ?", as_strs(&self.names));
        }
        if !self.excluded.is_empty() {
            condition.and_in("e.name NOT IN ?", as_strs(&self.excluded));
        }
        if !self.tags.is_empty() {
            condition.and_tagged(OBJECT, "e", &self.tags);
        }
        match self.verified {
            Some(true) => condition.and_sql("(e.verified OR e.name LIKE '$%')"),
            Some(false) => condition.and_sql("NOT e.verified"),
            None => {}
        }
        if self.exclude_hidden {
            condition.and_sql("NOT e.hidden");
        }
        if let Some(since) = self.seen_since {
            condition.and("(e.last_seen_at IS NULL OR e.last_seen_at >= ?)", since);
        }
        condition
    }

    /// ORDER BY; the name breaks ties.
    fn order(&self) -> String {
        let mut order: Vec<String> = self
            .order
            .iter()
            .map(|(by, sense)| {
                let by = match by {
                    EventDefinitionOrder::Name => "e.name".to_owned(),
                    EventDefinitionOrder::LastSeen => "e.last_seen_at".to_owned(),
                    EventDefinitionOrder::LastSeenDay => format!("e.last_seen_at / {DAY_MICROS}"),
                    EventDefinitionOrder::Created => "e.created_at".to_owned(),
                    EventDefinitionOrder::CreatedDay => format!("e.created_at / {DAY_MICROS}"),
                };
                match sense {
                    SortOrder::Ascending => format!("{by} ASC NULLS FIRST"),
                    SortOrder::Descending => format!("{by} DESC NULLS LAST"),
                }
            })
            .collect();
        if order.is_empty() && !self.terms.is_empty() {
            order.push("length(e.name)".into());
        } else if order.is_empty() {
            order.push(format!("e.last_seen_at / {DAY_MICROS} DESC NULLS LAST"));
        }
        order.push("e.name".into());
        order.join(", ")
    }
}

impl EventDefinitions<'_> {
    pub async fn list(
        self,
        project: ProjectId,
        filter: &EventDefinitionFilter,
        window: Window,
    ) -> Result<(Vec<EventDefinition>, i64)> {
        let from = "event_definitions e";
        let condition = filter.condition(project);
        let (columns, order) = (columns(self.core.clock.now()), filter.order());
        let (rows, total) = self.core.db.page(&columns, from, condition, &order, window).await?;
        Ok((self.read_all(project, &rows).await?, total))
    }

    async fn read_all(self, project: ProjectId, rows: &[Row]) -> Result<Vec<EventDefinition>> {
        let ids = rows
            .iter()
            .map(|row| Ok(row.get::<Uuid>("id")?.to_string()))
            .collect::<Result<Vec<_>>>()?;
        let mut tags = tags::of_many(&self.core.db, project, OBJECT, &ids).await?;
        let stored = rows
            .iter()
            .zip(&ids)
            .map(|(row, id)| EventDefinitionRow::read(row, tags.remove(id).unwrap_or_default()))
            .collect::<Result<Vec<_>>>()?;
        let users =
            self.core.users_among(stored.iter().flat_map(EventDefinitionRow::user_ids)).await?;
        Ok(stored.into_iter().map(|stored| stored.into_definition(&users)).collect())
    }

    pub async fn get(self, project: ProjectId, id: Uuid) -> Result<EventDefinition> {
        let sql = format!(
            "SELECT {} FROM event_definitions e WHERE e.project_id = $1 AND e.id = $2",
            columns(self.core.clock.now()),
        );
        let rows = self.core.db.all(sql, args![project, id]).await?;
        let definitions = self.read_all(project, &rows).await?;
        definitions.into_iter().next().ok_or(Error::NotFound)
    }

    pub async fn by_name(self, project: ProjectId, name: &str) -> Result<EventDefinition> {
        let sql = format!(
            "SELECT {} FROM event_definitions e WHERE e.project_id = $1 AND e.name = $2",
            columns(self.core.clock.now()),
        );
        let rows = self.core.db.all(sql, args![project, name]).await?;
        let definitions = self.read_all(project, &rows).await?;
        definitions.into_iter().next().ok_or(Error::NotFound)
    }

    /// Creates a definition of an event that was not observed yet.
    pub async fn create(
        self,
        actor: &Actor,
        project: ProjectId,
        name: &str,
        change: EventDefinitionChange,
    ) -> Result<EventDefinition> {
        let (id, now) = (Uuid::now_v7(), self.core.clock.now());
        let mut tx = self.core.db.begin().await?;
        let sql = "INSERT INTO event_definitions (id, project_id, name, verified, hidden, \
                   enforcement_mode, default_columns, created_by, updated_at, updated_by) \
                   VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $7)";
        let values = args![id, project, name, false, "allow", "[]", actor.user, now];
        if let Err(error) = tx.run(sql, values).await {
            return Err(match error {
                Error::Duplicate { .. } => Error::Taken {
                    field: "name",
                    detail: "An event definition with this name exists already.".into(),
                },
                other => other,
            });
        }
        let before = EventDefinitionRow::lock(&mut tx, project, id, now).await?;
        let after = apply_change(&mut tx, actor, &before, change, now).await?;
        let users = tx.users_among(after.user_ids().into_iter()).await?;
        let created = after.into_definition(&users);
        tx.log_created(actor, &created, now).await?;
        tx.commit().await?;
        Ok(created)
    }

    pub async fn update(
        self,
        actor: &Actor,
        project: ProjectId,
        id: Uuid,
        change: EventDefinitionChange,
    ) -> Result<EventDefinition> {
        let mut tx = self.core.db.begin().await?;
        let now = self.core.clock.now();
        let before = EventDefinitionRow::lock(&mut tx, project, id, now).await?;
        let after = apply_change(&mut tx, actor, &before, change, now).await?;
        let users = tx.users_among(before.user_ids().into_iter().chain(after.user_ids())).await?;
        let is_same = before == after;
        let (before, after) = (before.into_definition(&users), after.into_definition(&users));
        if !is_same {
            tx.log_updated(actor, &before, &after, now).await?;
            tx.commit().await?;
        }
        Ok(after)
    }

    /// Deletes the definition but no events; the next event of this name creates it again.
    pub async fn delete(self, actor: &Actor, project: ProjectId, id: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let now = self.core.clock.now();
        let deleted = EventDefinitionRow::lock(&mut tx, project, id, now).await?;
        tags::replace(&mut tx, project, OBJECT, id.to_string(), &[]).await?;
        tx.run("DELETE FROM event_definitions WHERE id = $1", args![id]).await?;
        let deleted = deleted.into_definition(&Users::new());
        tx.log_deleted(actor, &deleted, now).await?;
        tx.invalidate_definitions();
        tx.commit().await
    }
}

/// Applies a change, and saves it if anything differs.
async fn apply_change(
    tx: &mut Tx,
    actor: &Actor,
    before: &EventDefinitionRow,
    change: EventDefinitionChange,
    now: Timestamp,
) -> Result<EventDefinitionRow> {
    let mut after = before.clone();
    let (verified, hidden) = (change.verified, change.hidden);
    after.curation.change("An event", verified, hidden, actor.user, now)?;
    if let Some(Some(owner)) = change.owner {
        tx.check_member(actor.organization, owner, "owner").await?;
    }
    set(&mut after.description, change.description);
    set(&mut after.owner, change.owner);
    set(&mut after.tags, change.tags);
    set(&mut after.default_columns, change.default_columns);
    set(&mut after.primary_property, change.primary_property);
    set(&mut after.enforcement_mode, change.enforcement_mode);
    if after == *before {
        return Ok(after);
    }
    (after.updated_at, after.updated_by) = (now, actor.user);
    let columns = serde_json::to_string(&after.default_columns)
        .map_err(|why| Error::corrupt("default_columns", why))?;
    tx.run(
        "UPDATE event_definitions SET description = $2, owner_id = $3, verified = $4, \
         verified_at = $5, verified_by = $6, hidden = $7, enforcement_mode = $8, \
         primary_property = $9, default_columns = $10, updated_at = $11, updated_by = $12 \
         WHERE id = $1",
        args![
            after.id,
            after.description.as_deref(),
            after.owner,
            after.curation.verified,
            after.curation.verified_at,
            after.curation.verified_by,
            after.curation.hidden,
            after.enforcement_mode.as_str(),
            after.primary_property.as_deref(),
            columns,
            after.updated_at,
            after.updated_by,
        ],
    )
    .await?;
    if after.tags != before.tags {
        let project = actor.project.ok_or(Error::NotFound)?;
        tags::replace(tx, project, OBJECT, after.id.to_string(), &after.tags).await?;
    }
    Ok(after)
}
