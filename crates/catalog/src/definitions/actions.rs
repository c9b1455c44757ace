//! Actions: named combinations of event filters, with tags.

use model::{Action, ActionId, ActionStep, ProjectId, Timestamp, Visibility, Window};

use super::Actions;
use crate::activity::{Actor, Logged};
use crate::cohorts::references::check_steps;
use crate::db::select::Condition;
use crate::db::{Row, Tx, args, author};
use crate::objects::edit::{Deleted, Editable, set};
use crate::objects::{lock_dashboards, tags};
use crate::{Error, Result};

pub struct NewAction {
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub post_to_slack: bool,
    pub slack_message_format: String,
    pub steps: Vec<ActionStep>,
    pub pinned: bool,
    pub deleted: bool,
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct ActionChange {
    pub name: Option<String>,
    pub description: Option<String>,
    pub tags: Option<Vec<String>>,
    pub post_to_slack: Option<bool>,
    pub slack_message_format: Option<String>,
    pub steps: Option<Vec<ActionStep>>,
    /// Pinning a pinned action keeps its timestamp.
    pub pinned: Option<bool>,
    pub deleted: Option<bool>,
}

/// The `object` column of these objects' taggings.
const OBJECT: &str = "action";
const COLUMNS: &str = "a.id, a.project_id, a.name, a.description, a.post_to_slack, \
     a.slack_message_format, a.steps, a.pinned_at, a.created_at, a.updated_at, a.deleted";
const FROM: &str = "actions a LEFT JOIN users u ON u.id = a.created_by";

fn read(row: &Row, tags: Vec<String>) -> Result<Action> {
    let created_at = row.get("created_at")?;
    Ok(Action {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        tags,
        post_to_slack: row.get("post_to_slack")?,
        slack_message_format: row.get("slack_message_format")?,
        steps: row.json("steps")?,
        created_at,
        created_by: author::read(row)?,
        deleted: row.get("deleted")?,
        is_calculating: false,
        last_calculated_at: created_at,
        team_id: row.get("project_id")?,
        is_action: true,
        bytecode_error: None,
        pinned_at: row.get("pinned_at")?,
        creation_context: None,
        updated_at: row.get("updated_at")?,
    })
}

fn steps_json(steps: &[ActionStep]) -> Result<String> {
    serde_json::to_string(steps).map_err(|why| Error::corrupt("steps", why))
}

impl Logged for Action {
    const SCOPE: &'static str = "Action";

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl Editable for Action {
    type Id = ActionId;

    async fn lock(tx: &mut Tx, actor: &Actor, id: ActionId) -> Result<Self> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE a.project_id = $1 AND a.id = $2{}",
            author::COLUMNS,
            tx.dialect().for_update_of("a"),
        );
        let row = tx.one(sql, args![actor.project, id]).await?;
        let tags = tags::of_one(tx, row.get("project_id")?, OBJECT, id.to_string()).await?;
        read(&row, tags)
    }

    async fn save(&mut self, tx: &mut Tx, before: &Self) -> Result<()> {
        tx.run(
            "UPDATE actions SET name = $2, description = $3, post_to_slack = $4, \
             slack_message_format = $5, steps = $6, pinned_at = $7, deleted = $8, \
             updated_at = $9 WHERE id = $1",
            args![
                self.id,
                self.name.as_str(),
                self.description.as_str(),
                self.post_to_slack,
                self.slack_message_format.as_str(),
                steps_json(&self.steps)?,
                self.pinned_at,
                self.deleted,
                self.updated_at,
            ],
        )
        .await?;
        if self.tags != before.tags {
            tags::replace(tx, self.team_id, OBJECT, self.id.to_string(), &self.tags).await?;
        }
        Ok(())
    }

    fn project(&self) -> ProjectId {
        self.team_id
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn mark_changed(&mut self, now: Timestamp) {
        self.updated_at = now;
    }
}

impl Actions<'_> {
    /// Newest first; PostHog orders by the last calculation, which is the creation here.
    pub async fn list(
        self,
        project: ProjectId,
        visibility: &Visibility,
        window: Window,
    ) -> Result<(Vec<Action>, i64)> {
        let live = format!("a.project_id = $1{}", Deleted::Exclude.condition("a"));
        let columns = format!("{COLUMNS}, {}", author::COLUMNS);
        let order = "a.created_at DESC, a.name, a.id";
        let mut condition = Condition::new(&live, args![project]);
        condition.and_visible(visibility, "a");
        let (rows, total) = self.core.db.page(&columns, FROM, condition, order, window).await?;
        let ids = rows
            .iter()
            .map(|row| Ok(row.get::<ActionId>("id")?.to_string()))
            .collect::<Result<Vec<_>>>()?;
        let mut tags = tags::of_many(&self.core.db, project, OBJECT, &ids).await?;
        let actions = rows
            .iter()
            .zip(&ids)
            .map(|(row, id)| read(row, tags.remove(id).unwrap_or_default()))
            .collect::<Result<_>>()?;
        Ok((actions, total))
    }

    pub async fn get(self, project: ProjectId, id: ActionId, deleted: Deleted) -> Result<Action> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE a.project_id = $1 AND a.id = $2{}",
            author::COLUMNS,
            deleted.condition("a"),
        );
        let row = self.core.db.one(sql, args![project, id]).await?;
        let key = id.to_string();
        let mut tags =
            tags::of_many(&self.core.db, project, OBJECT, std::slice::from_ref(&key)).await?;
        read(&row, tags.remove(&key).unwrap_or_default())
    }

    /// The actions with these names.
    pub async fn ids_by_name(self, project: ProjectId, names: &[&str]) -> Result<Vec<ActionId>> {
        let live = Deleted::Exclude.condition("a");
        let sql = format!(
            "SELECT a.id FROM actions a WHERE a.project_id = $1 AND a.name IN {{list}}{live}"
        );
        let list: Vec<_> = names.iter().map(|name| (*name).into()).collect();
        let rows = self.core.db.all_in(&sql, args![project], &list).await?;
        rows.iter().map(|row| row.get("id")).collect()
    }

    /// If the name is taken by an action hidden from the user, the error does not reveal its id.
    pub async fn create(
        self,
        actor: &Actor,
        new: NewAction,
        visibility: &Visibility,
    ) -> Result<Action> {
        let name = new.name.clone();
        match self.insert_action(actor, new).await {
            Err(Error::Duplicate { rule }) => {
                Err(self.name_taken(actor, &name, visibility, rule).await?)
            }
            other => other,
        }
    }

    async fn insert_action(self, actor: &Actor, new: NewAction) -> Result<Action> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let row = tx
            .one(
                "INSERT INTO actions (project_id, name, description, post_to_slack, \
                 slack_message_format, steps, pinned_at, deleted, created_by, created_at, \
                 updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) \
                 RETURNING id, project_id",
                args![
                    actor.project,
                    new.name,
                    new.description,
                    new.post_to_slack,
                    new.slack_message_format,
                    steps_json(&new.steps)?,
                    new.pinned.then_some(now),
                    new.deleted,
                    actor.user,
                    now,
                ],
            )
            .await?;
        let id: ActionId = row.get("id")?;
        tags::replace(&mut tx, row.get("project_id")?, OBJECT, id.to_string(), &new.tags).await?;
        let action = Action::lock(&mut tx, actor, id).await?;
        tx.log_created(actor, &action, now).await?;
        tx.commit().await?;
        Ok(action)
    }

    pub async fn update(
        self,
        actor: &Actor,
        id: ActionId,
        change: ActionChange,
        visibility: &Visibility,
    ) -> Result<Action> {
        let mut name = String::new();
        match self.change_action(actor, id, change, &mut name).await {
            Err(Error::Duplicate { rule }) => {
                Err(self.name_taken(actor, &name, visibility, rule).await?)
            }
            other => other,
        }
    }

    async fn change_action(
        self,
        actor: &Actor,
        id: ActionId,
        change: ActionChange,
        name: &mut String,
    ) -> Result<Action> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        if change.steps.is_some() {
            // The lock that cohort writers take: two concurrent changes must not close a cycle.
            lock_dashboards(&mut tx, project).await?;
        }
        let mut steps_changed = false;
        let apply = |action: &mut Action, now| {
            steps_changed = change.steps.as_ref().is_some_and(|steps| *steps != action.steps);
            set(&mut action.name, change.name);
            set(&mut action.description, change.description);
            set(&mut action.tags, change.tags);
            set(&mut action.post_to_slack, change.post_to_slack);
            set(&mut action.slack_message_format, change.slack_message_format);
            set(&mut action.steps, change.steps);
            set(&mut action.deleted, change.deleted);
            let pinned_at = action.pinned_at.unwrap_or(now);
            set(&mut action.pinned_at, change.pinned.map(|pinned| pinned.then_some(pinned_at)));
            name.clone_from(&action.name);
            Ok(())
        };
        let action = self.core.edit_in(&mut tx, actor, id, apply).await?;
        if steps_changed {
            check_steps(&mut tx, project, id, &action.steps).await?;
        }
        tx.commit().await?;
        Ok(action)
    }

    /// The error that names the live action with the same name. The unique constraint decides, so
    /// one of two concurrent requests wins.
    async fn name_taken(
        self,
        actor: &Actor,
        name: &str,
        visibility: &Visibility,
        rule: String,
    ) -> Result<Error> {
        let sql = "SELECT id, created_by FROM actions WHERE project_id = $1 AND name = $2 AND NOT deleted";
        let Some(row) = self.core.db.optional(sql, args![actor.project, name]).await? else {
            return Ok(Error::Duplicate { rule });
        };
        let id: ActionId = row.get("id")?;
        let mut detail = String::from("This project already has an action with this name");
        if visibility.holds(id.0, row.get("created_by")?) {
            detail += &format!(", ID {id}");
        }
        Ok(Error::Taken { field: "name", detail })
    }
}
