//! The activity log: who changed what, written in the transaction of the change.

mod redact;

use model::{
    AnnotationScope, ObjectKind, OrganizationId, ProjectId, Timestamp, User, UserId, Visibilities,
    Window,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::db::dialect::placeholders;
use crate::db::object_tables::ObjectTable;
use crate::db::{Row, Tx, args, author, handle, select};
use crate::{Error, Result};

handle! {
    /// The activity log.
    Activity
}

/// Who makes a change, and in which organization and project the log shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// None when the server itself acts.
    pub user: Option<UserId>,
    pub organization: OrganizationId,
    pub project: Option<ProjectId>,
}

impl Actor {
    /// The project that the actor works in.
    pub(crate) fn project_id(&self) -> Result<ProjectId> {
        self.project.ok_or(Error::NotFound)
    }
}

/// An object whose changes are logged, as a diff of its serialized fields.
pub trait Logged: Serialize {
    const SCOPE: &'static str;
    /// The activity that an update is logged as.
    const UPDATED: &'static str = "updated";
    /// Fields that the diff leaves out: derived, or secret.
    const UNLOGGED: &'static [&'static str] = &[];

    fn item_id(&self) -> String;
    fn item_name(&self) -> Option<String>;

    /// The short id in its URLs, if it has one.
    fn short_id(&self) -> Option<String> {
        None
    }

    /// Changes that the diff of the fields does not show.
    fn further_changes(_before: &Self, _after: &Self) -> Vec<Change> {
        Vec::new()
    }
}

/// The object that an entry is about.
pub(crate) struct Item {
    pub scope: &'static str,
    pub id: String,
    pub name: Option<String>,
    pub short_id: Option<String>,
}

impl Item {
    pub(crate) fn of<T: Logged>(object: &T) -> Self {
        let (id, name) = (object.item_id(), object.item_name());
        Self { scope: T::SCOPE, id, name, short_id: object.short_id() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    #[serde(rename = "type")]
    pub scope: String,
    pub action: ChangeAction,
    pub field: Option<String>,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAction {
    Created,
    Changed,
    Deleted,
    Exported,
    Merged,
    Split,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Detail {
    pub id: Option<String>,
    pub changes: Vec<Change>,
    pub name: Option<String>,
    pub short_id: Option<String>,
    /// Always null, as `merge`: `changes` names the merged person. Clients expect the keys.
    #[schemars(with = "()")]
    pub trigger: Option<Value>,
    #[schemars(with = "()")]
    pub merge: Option<Value>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// An entry of the log, as the API serializes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Entry {
    pub id: Uuid,
    pub user: Option<User>,
    pub activity: String,
    pub scope: String,
    pub item_id: String,
    /// The stored JSON verbatim, so that entries of older releases stay readable.
    #[schemars(with = "Detail")]
    pub detail: Box<RawValue>,
    pub created_at: Timestamp,
    pub organization_id: OrganizationId,
    pub is_system: bool,
    pub was_impersonated: bool,
    pub unread: bool,
}

/// Filters of a project's log; an absent filter matches everything.
#[derive(Clone, Debug)]
pub struct ActivityFilter {
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub scopes: Vec<String>,
    pub item_ids: Vec<String>,
    pub users: Vec<Uuid>,
    pub activities: Vec<String>,
    /// Both inclusive.
    pub period: (Option<Timestamp>, Option<Timestamp>),
    /// What the reader may see of each kind of object.
    pub visibility: Visibilities,
}

/// Values that occur in the log; at most 1,000 of each.
#[derive(Clone, Debug)]
pub struct ActivityChoices {
    pub users: Vec<User>,
    pub scopes: Vec<String>,
    pub activities: Vec<String>,
}

const CHOICES_MAX: usize = 1_000;

/// A position in the log, for cursor pagination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCursor {
    pub created_at: Timestamp,
    pub id: Uuid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the past, the default order.
    Older,
    Newer,
}

/// The scope of annotations, which are hidden with the object they are attached to.
pub(crate) const ANNOTATION_SCOPE: &str = "Annotation";

const COLUMNS: &str = "a.id, a.organization_id, a.activity, a.scope, a.item_id, a.detail, \
     a.is_system, a.created_at";

impl Entry {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            user: author::read(row)?,
            activity: row.get("activity")?,
            scope: row.get("scope")?,
            item_id: row.get("item_id")?,
            detail: row.json("detail")?,
            created_at: row.get("created_at")?,
            organization_id: row.get("organization_id")?,
            is_system: row.get("is_system")?,
            was_impersonated: false,
            unread: false,
        })
    }
}

/// The fields that differ between two serialized versions of an object.
fn changes_between<T: Logged>(before: &T, after: &T) -> Result<Vec<Change>> {
    let form = |object: &T| match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::corrupt(T::SCOPE, "not an object")),
        Err(why) => Err(Error::corrupt(T::SCOPE, why)),
    };
    let (mut old, new) = (form(before)?, form(after)?);
    let mut changes = Vec::new();
    for (field, after) in new {
        let before = old.remove(&field).unwrap_or(Value::Null);
        if before == after || T::UNLOGGED.contains(&field.as_str()) {
            continue;
        }
        let action = match (&before, &after) {
            (Value::Null, _) => ChangeAction::Created,
            (_, Value::Null) => ChangeAction::Deleted,
            _ => ChangeAction::Changed,
        };
        changes.push(Change {
            scope: T::SCOPE.into(),
            action,
            field: Some(field),
            before: Some(before),
            after: Some(after),
        });
    }
    Ok(changes)
}

impl Tx {
    pub(crate) async fn log_created<T: Logged>(
        &mut self,
        actor: &Actor,
        object: &T,
        now: Timestamp,
    ) -> Result<()> {
        self.log(actor, "created", object, Vec::new(), now).await
    }

    /// Writes nothing if nothing changed. Soft delete and restore are activities of their own.
    pub(crate) async fn log_updated<T: Logged>(
        &mut self,
        actor: &Actor,
        before: &T,
        after: &T,
        now: Timestamp,
    ) -> Result<()> {
        let mut changes = changes_between(before, after)?;
        changes.extend(T::further_changes(before, after));
        if changes.is_empty() {
            return Ok(());
        }
        let flipped = changes.iter().find(|change| change.field.as_deref() == Some("deleted"));
        let activity = match flipped.and_then(|change| change.after.as_ref()) {
            Some(Value::Bool(true)) => "deleted",
            Some(Value::Bool(false)) => "restored",
            _ => T::UPDATED,
        };
        self.log(actor, activity, after, changes, now).await
    }

    pub(crate) async fn log_deleted<T: Logged>(
        &mut self,
        actor: &Actor,
        object: &T,
        now: Timestamp,
    ) -> Result<()> {
        self.log(actor, "deleted", object, Vec::new(), now).await
    }

    /// Logs that a secret changed, without its values.
    pub(crate) async fn log_hidden_change<T: Logged>(
        &mut self,
        actor: &Actor,
        object: &T,
        (action, field): (ChangeAction, &str),
        now: Timestamp,
    ) -> Result<()> {
        let change = Change {
            scope: T::SCOPE.into(),
            action,
            field: Some(field.into()),
            before: None,
            after: None,
        };
        self.log(actor, "updated", object, vec![change], now).await
    }

    /// Logs an activity by name.
    pub(crate) async fn log<T: Logged>(
        &mut self,
        actor: &Actor,
        activity: &str,
        object: &T,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<()> {
        self.log_item(actor, activity, &Item::of(object), changes, now).await
    }

    /// Like [`Tx::log`], for an object that was not loaded.
    pub(crate) async fn log_item(
        &mut self,
        actor: &Actor,
        activity: &str,
        item: &Item,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<()> {
        let detail = Detail {
            id: None,
            changes,
            name: item.name.clone(),
            short_id: item.short_id.clone(),
            trigger: None,
            merge: None,
            kind: None,
        };
        let detail = serde_json::to_string(&detail).map_err(|why| Error::corrupt("detail", why))?;
        self.run(
            "INSERT INTO activity_log (id, organization_id, project_id, user_id, activity, scope, \
             item_id, detail, is_system, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            args![
                Uuid::now_v7(),
                actor.organization,
                actor.project,
                actor.user,
                activity,
                item.scope,
                item.id.as_str(),
                detail,
                actor.user.is_none(),
                now,
            ],
        )
        .await?;
        Ok(())
    }
}

impl Activity<'_> {
    /// One page, newest first, with the total count.
    pub async fn page(self, filter: &ActivityFilter, window: Window) -> Result<(Vec<Entry>, i64)> {
        let (condition, mut values) = condition(filter);
        let count = format!("SELECT COUNT(*) AS total FROM activity_log a WHERE {condition}");
        let total = self.core.db.one(count, values.clone()).await?.get("total")?;
        let next = values.len() + 1;
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM activity_log a LEFT JOIN users u ON u.id = a.user_id \
             WHERE {condition} ORDER BY a.created_at DESC, a.id DESC LIMIT ${next} OFFSET ${}",
            author::COLUMNS,
            next + 1,
        );
        values.extend(args![window.limit, window.offset]);
        let rows = self.core.db.all(sql, values).await?;
        let mut entries: Vec<Entry> = rows.iter().map(Entry::read).collect::<Result<_>>()?;
        self.redact(filter.project, &mut entries, &filter.visibility).await?;
        Ok((entries, total))
    }

    /// The users, scopes and activities of the log, for a choice of filters.
    pub async fn choices(self, filter: &ActivityFilter) -> Result<ActivityChoices> {
        let (condition, values) = condition(filter);
        let words = async |column: &str| -> Result<Vec<String>> {
            let sql = format!(
                "SELECT DISTINCT a.{column} AS word FROM activity_log a WHERE {condition} \
                 ORDER BY word LIMIT {CHOICES_MAX}"
            );
            let rows = self.core.db.all(sql, values.clone()).await?;
            rows.iter().map(|row| row.get("word")).collect()
        };
        let (scopes, activities) = (words("scope").await?, words("activity").await?);
        let sql = format!(
            "SELECT {} FROM users u WHERE u.id IN (SELECT a.user_id FROM activity_log a \
             WHERE {condition}) ORDER BY u.id LIMIT {CHOICES_MAX}",
            author::COLUMNS
        );
        let rows = self.core.db.all(sql, values).await?;
        let users = rows.iter().filter_map(|row| author::read(row).transpose());
        Ok(ActivityChoices { users: users.collect::<Result<_>>()?, scopes, activities })
    }

    /// Up to `limit` entries beyond the cursor, newest first in either direction.
    pub async fn from_cursor(
        self,
        filter: &ActivityFilter,
        from: Option<(LogCursor, Direction)>,
        limit: i64,
    ) -> Result<Vec<Entry>> {
        let (mut condition, mut values) = condition(filter);
        let direction = from.map_or(Direction::Older, |(_, direction)| direction);
        let (sign, order) = match direction {
            Direction::Older => ("<", "DESC"),
            Direction::Newer => (">", "ASC"),
        };
        if let Some((mark, _)) = from {
            let next = values.len() + 1;
            condition += &format!(" AND (a.created_at, a.id) {sign} (${next}, ${})", next + 1);
            values.extend(args![mark.created_at, mark.id]);
        }
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM activity_log a LEFT JOIN users u ON u.id = a.user_id \
             WHERE {condition} ORDER BY a.created_at {order}, a.id {order} LIMIT ${}",
            author::COLUMNS,
            values.len() + 1,
        );
        values.extend(args![limit]);
        let rows = self.core.db.all(sql, values).await?;
        let mut entries: Vec<Entry> = rows.iter().map(Entry::read).collect::<Result<_>>()?;
        if direction == Direction::Newer {
            entries.reverse();
        }
        self.redact(filter.project, &mut entries, &filter.visibility).await?;
        Ok(entries)
    }
}

/// Entries without a project (members, roles, deleted projects) are shown in every project of the
/// organization.
fn condition(filter: &ActivityFilter) -> (String, Vec<crate::db::Value>) {
    let mut values = args![filter.organization, filter.project];
    let mut condition =
        String::from("a.organization_id = $1 AND (a.project_id = $2 OR a.project_id IS NULL)");
    for (column, words) in [
        ("a.scope", &filter.scopes),
        ("a.item_id", &filter.item_ids),
        ("a.activity", &filter.activities),
    ] {
        if !words.is_empty() {
            let marks = placeholders(values.len() + 1, words.len());
            condition += &format!(" AND {column} IN {marks}");
            values.extend(words.iter().map(|word| word.as_str().into()));
        }
    }
    if !filter.users.is_empty() {
        let marks = placeholders(values.len() + 1, filter.users.len());
        condition += &format!(" AND a.user_id IN (SELECT id FROM users WHERE uuid IN {marks})");
        values.extend(filter.users.iter().map(|user| (*user).into()));
    }
    for (sign, bound) in [(">=", filter.period.0), ("<=", filter.period.1)] {
        if let Some(bound) = bound {
            condition += &format!(" AND a.created_at {sign} ${}", values.len() + 1);
            values.extend(args![bound]);
        }
    }
    for (kind, visibility) in filter.visibility.iter() {
        let Some(visible_sql) = select::visible(visibility, "o", &mut values) else { continue };
        let ObjectTable { table, scope, .. } = ObjectTable::of(kind);
        condition += &format!(
            " AND (a.scope <> '{scope}' OR EXISTS (SELECT 1 FROM {table} o \
             WHERE o.project_id = $2 AND CAST(o.id AS TEXT) = a.item_id AND {visible_sql}))"
        );
        let (column, drawn_on) = match kind {
            ObjectKind::Dashboard => ("dashboard_id", AnnotationScope::Dashboard),
            ObjectKind::Insight => ("insight_id", AnnotationScope::DashboardItem),
            ObjectKind::Action | ObjectKind::FeatureFlag => continue,
        };
        condition += &format!(
            " AND (a.scope <> '{}' OR NOT EXISTS (SELECT 1 FROM annotations n JOIN {table} o \
             ON o.id = n.{column} WHERE CAST(n.id AS TEXT) = a.item_id AND n.scope = '{}' \
             AND {visible_sql} IS NOT TRUE))",
            ANNOTATION_SCOPE,
            drawn_on.as_str(),
        );
    }
    (condition, values)
}
