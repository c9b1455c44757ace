//! Projects, their tokens and their settings.

mod access_rules;
pub(crate) mod tokens;

use model::{
    DashboardId, OrganizationId, ProjectAccess, ProjectId, ProjectSettings, ProjectSettingsChange,
    Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use crate::access::{self, IS_PRIVATE, RuleSubject, RuleTarget};
use crate::activity::{Actor, ChangeAction, Logged};
use crate::db::secret::Secret;
use crate::db::{Row, Tx, args, handle};
use crate::{Error, Result};

handle! {
    /// Projects, their tokens and settings.
    Projects
}
handle! {
    /// The access rules of projects.
    AccessRules
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ProjectRow {
    pub id: ProjectId,
    pub uuid: Uuid,
    pub organization: OrganizationId,
    pub name: String,
    pub api_token: String,
    pub timezone: String,
    #[serde(flatten)]
    pub settings: ProjectSettings,
    pub ingested_event: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip)]
    secret: Option<Vec<u8>>,
    #[serde(skip)]
    secret_backup: Option<Vec<u8>>,
}

/// A partial update by a project administrator; absent fields stay unchanged.
#[derive(Default)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub timezone: Option<String>,
    pub settings: ProjectSettingsChange,
}

pub struct NewProject {
    pub name: String,
    pub timezone: String,
    pub api_token: Secret,
    pub settings: ProjectSettings,
}

const ROW_COLUMNS: &str = "p.id, p.uuid, p.organization_id, p.name, p.api_token, p.timezone, \
     p.settings, p.ingested_event, p.created_at, p.updated_at, p.secret_sealed, \
     p.secret_backup_sealed";

pub(crate) fn columns() -> String {
    format!("{ROW_COLUMNS}, {IS_PRIVATE} AS is_private")
}

impl ProjectRow {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        let mut settings = ProjectSettings::stored(row.json("settings")?);
        settings.set_private(row.get("is_private")?);
        Ok(Self {
            id: row.get("id")?,
            uuid: row.get("uuid")?,
            organization: row.get("organization_id")?,
            name: row.get("name")?,
            api_token: row.get("api_token")?,
            timezone: row.get("timezone")?,
            settings,
            ingested_event: row.get("ingested_event")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
            secret: row.get("secret_sealed")?,
            secret_backup: row.get("secret_backup_sealed")?,
        })
    }
}

impl Logged for ProjectRow {
    const SCOPE: &'static str = "Team";
    const UNLOGGED: &'static [&'static str] = &["updated_at", "api_token"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

/// Sets name and time zone.
pub(crate) async fn rename(
    tx: &mut Tx,
    actor: &Actor,
    id: ProjectId,
    (name, timezone): (String, String),
    now: Timestamp,
) -> Result<()> {
    tx.invalidate_project(id);
    let before = lock(tx, id).await?;
    let after = ProjectRow { name, timezone, updated_at: now, ..before.clone() };
    let sql = "UPDATE projects SET name = $2, timezone = $3, updated_at = $4 WHERE id = $1";
    tx.run(sql, args![id, after.name.as_str(), after.timezone.as_str(), now]).await?;
    tx.log_updated(actor, &before, &after, now).await
}

impl Projects<'_> {
    pub async fn get(self, id: ProjectId) -> Result<ProjectRow> {
        let sql = format!(
            "SELECT {} FROM projects p WHERE p.id = $1 AND p.deleted_at IS NULL",
            columns()
        );
        ProjectRow::read(&self.core.db.one(sql, args![id]).await?)
    }

    /// The projects of an organization with this name, oldest first, at most `limit`.
    pub async fn named(
        self,
        organization: OrganizationId,
        name: &str,
        limit: i64,
    ) -> Result<Vec<ProjectRow>> {
        let sql = format!(
            "SELECT {} FROM projects p WHERE p.organization_id = $1 AND p.name = $2 \
             AND p.deleted_at IS NULL ORDER BY p.id LIMIT $3",
            columns()
        );
        let rows = self.core.db.all(sql, args![organization, name, limit]).await?;
        rows.iter().map(ProjectRow::read).collect()
    }

    /// The first project of an organization, if it has any.
    pub async fn oldest(self, organization: OrganizationId) -> Result<Option<ProjectRow>> {
        let sql = format!(
            "SELECT {} FROM projects p WHERE p.organization_id = $1 AND p.deleted_at IS NULL \
             ORDER BY p.id LIMIT 1",
            columns()
        );
        let row = self.core.db.optional(sql, args![organization]).await?;
        row.as_ref().map(ProjectRow::read).transpose()
    }

    /// Creates a project; no user is switched to it.
    pub async fn create(self, actor: &Actor, new: NewProject) -> Result<ProjectRow> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let settings = new.settings.clone();
        let mut project = insert(&mut tx, actor.organization, new, now).await?;
        check_primary(&mut tx, &project).await?;
        sync_private_rule(&mut tx, &project, &settings, now).await?;
        project.settings = settings;
        let actor = Actor { project: Some(project.id), ..*actor };
        tx.log_created(&actor, &project, now).await?;
        tx.commit().await?;
        Ok(project)
    }

    pub async fn update(
        self,
        actor: &Actor,
        id: ProjectId,
        change: ProjectChange,
    ) -> Result<ProjectRow> {
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(id);
        let before = lock(&mut tx, id).await?;
        let now = self.core.clock.now();
        let mut after = before.clone();
        after.name = change.name.unwrap_or(after.name);
        after.timezone = change.timezone.unwrap_or(after.timezone);
        after.settings.apply(change.settings);
        if after == before {
            return Ok(before);
        }
        if after.settings.primary_dashboard() != before.settings.primary_dashboard() {
            check_primary(&mut tx, &after).await?;
        }
        after.updated_at = now;
        tx.run(
            "UPDATE projects SET name = $2, timezone = $3, settings = $4, updated_at = $5 \
             WHERE id = $1",
            args![
                id,
                after.name.as_str(),
                after.timezone.as_str(),
                stored_settings(&after.settings),
                now
            ],
        )
        .await?;
        sync_private_rule(&mut tx, &before, &after.settings, now).await?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    /// Soft-deletes the project and frees its tokens; its id is never reused. The organization's
    /// log records it, since the project's log is no longer readable.
    pub async fn delete(self, actor: &Actor, id: ProjectId) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(id);
        let project = lock(&mut tx, id).await?;
        let now = self.core.clock.now();
        tx.run(format!("{SOFT_DELETE} AND id = $1"), args![id, now]).await?;
        tx.run(
            "UPDATE users SET current_project_id = NULL WHERE current_project_id = $1",
            args![id],
        )
        .await?;
        let actor = Actor { project: None, ..*actor };
        tx.log_deleted(&actor, &project, now).await?;
        tx.commit().await
    }

    /// Replaces the public token; the old one stops working immediately.
    pub async fn reset_token(self, actor: &Actor, id: ProjectId) -> Result<ProjectRow> {
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(id);
        let mut project = lock(&mut tx, id).await?;
        let now = self.core.clock.now();
        project.api_token = Secret::random("phc_").reveal().to_owned();
        project.updated_at = now;
        tx.run(
            "UPDATE projects SET api_token = $2, updated_at = $3 WHERE id = $1",
            args![id, project.api_token.as_str(), now],
        )
        .await?;
        let change = (ChangeAction::Changed, "api_token");
        tx.log_hidden_change(actor, &project, change, now).await?;
        tx.commit().await?;
        Ok(project)
    }

    /// Replaces the secret token; the previous one stays valid as backup.
    pub async fn rotate_secret(self, actor: &Actor, id: ProjectId) -> Result<ProjectRow> {
        let secret = Secret::random("phs_");
        let sealed = self.core.vault.seal(&secret)?;
        let mut tx = self.core.db.begin().await?;
        let mut project = lock(&mut tx, id).await?;
        let now = self.core.clock.now();
        project.secret_backup = project.secret.replace(sealed.clone());
        let action = match project.secret_backup {
            Some(_) => ChangeAction::Changed,
            None => ChangeAction::Created,
        };
        project.updated_at = now;
        // SQL evaluates the right-hand sides before it assigns.
        tx.run(
            "UPDATE projects SET secret_backup_hash = secret_hash, \
             secret_backup_sealed = secret_sealed, secret_hash = $2, secret_sealed = $3, \
             updated_at = $4 WHERE id = $1",
            args![id, secret.hash(), sealed, now],
        )
        .await?;
        let change = (action, "secret_api_token");
        tx.log_hidden_change(actor, &project, change, now).await?;
        tx.commit().await?;
        Ok(project)
    }

    pub async fn delete_secret_backup(self, actor: &Actor, id: ProjectId) -> Result<ProjectRow> {
        let mut tx = self.core.db.begin().await?;
        let mut project = lock(&mut tx, id).await?;
        let now = self.core.clock.now();
        if project.secret_backup.take().is_none() {
            return Ok(project);
        }
        project.updated_at = now;
        tx.run(
            "UPDATE projects SET secret_backup_hash = NULL, secret_backup_sealed = NULL, \
             updated_at = $2 WHERE id = $1",
            args![id, now],
        )
        .await?;
        let change = (ChangeAction::Deleted, "secret_api_token_backup");
        tx.log_hidden_change(actor, &project, change, now).await?;
        tx.commit().await?;
        Ok(project)
    }

    /// Decrypts the secret token and its backup, for an administrator.
    pub fn secrets(self, project: &ProjectRow) -> Result<(Option<Secret>, Option<Secret>)> {
        let open = |sealed: &Option<Vec<u8>>| {
            sealed.as_deref().map(|sealed| self.core.vault.open(sealed)).transpose()
        };
        Ok((open(&project.secret)?, open(&project.secret_backup)?))
    }

    /// Calls `listener` at the end of each transaction, on its thread, with every project whose
    /// row, token or settings may have changed or that is new.
    pub fn on_change(self, listener: impl Fn(ProjectId) + Send + Sync + 'static) {
        self.core.db.change_feed().subscribe(listener);
    }

    /// A cache version: data read under another version may be stale.
    pub fn version(self) -> u64 {
        self.core.db.change_feed().projects_version()
    }
}

impl NewProject {
    /// The first project of a new organization.
    pub(crate) fn first() -> Self {
        Self {
            name: "Default project".into(),
            timezone: "UTC".into(),
            api_token: Secret::random("phc_"),
            settings: ProjectSettings::default(),
        }
    }
}

/// The stored settings, without "private": that is stored as an access rule which excludes everyone
/// not named by another rule.
fn stored_settings(settings: &ProjectSettings) -> Value {
    let mut settings = settings.clone();
    settings.set_private(false);
    settings.to_stored()
}

/// Creates or deletes the access rule behind the private setting when that changes.
async fn sync_private_rule(
    tx: &mut Tx,
    before: &ProjectRow,
    after: &ProjectSettings,
    now: Timestamp,
) -> Result<()> {
    let level = match (before.settings.is_private(), after.is_private()) {
        (false, true) => Some(ProjectAccess::None.as_str()),
        (true, false) => None,
        _ => return Ok(()),
    };
    let (target, subject) = (RuleTarget::Project, RuleSubject::Everyone);
    access::write(tx, before.id, target, subject, level, now).await.map(drop)
}

/// Soft-deletes projects and clears their tokens.
const SOFT_DELETE: &str = "UPDATE projects SET deleted_at = $2, api_token = NULL, secret_hash = NULL, \
     secret_sealed = NULL, secret_backup_hash = NULL, secret_backup_sealed = NULL \
     WHERE deleted_at IS NULL";

/// Soft-deletes all projects of a deleted organization.
pub(crate) async fn delete_all_of(tx: &mut Tx, of: OrganizationId, now: Timestamp) -> Result<()> {
    let sql = format!("{SOFT_DELETE} AND organization_id = $1 RETURNING id");
    for row in tx.all(sql, args![of, now]).await? {
        tx.invalidate_project(row.get("id")?);
    }
    Ok(())
}

/// Checks that the primary dashboard is a live one of the project.
async fn check_primary(tx: &mut Tx, project: &ProjectRow) -> Result<()> {
    let Some(id) = project.settings.primary_dashboard() else { return Ok(()) };
    let sql = "SELECT id FROM dashboards WHERE id = $1 AND project_id = $2 AND NOT deleted";
    if tx.optional(sql, args![id, project.id]).await?.is_some() {
        return Ok(());
    }
    let detail = format!("Invalid pk \"{id}\" - object does not exist.");
    let field = ProjectSettings::PRIMARY_DASHBOARD;
    Err(Error::Invalid { field, code: "does_not_exist", detail })
}

/// Resets the primary dashboard if it is the deleted one.
pub(crate) async fn clear_primary_dashboard(
    tx: &mut Tx,
    id: ProjectId,
    dashboard: DashboardId,
) -> Result<()> {
    let mut settings = lock(tx, id).await?.settings;
    if settings.primary_dashboard() != Some(dashboard) {
        return Ok(());
    }
    settings.reset_primary_dashboard();
    tx.invalidate_project(id);
    let sql = "UPDATE projects SET settings = $2 WHERE id = $1";
    tx.run(sql, args![id, stored_settings(&settings)]).await.map(drop)
}

pub(crate) async fn lock(tx: &mut Tx, id: ProjectId) -> Result<ProjectRow> {
    let lock = tx.dialect().for_update();
    let sql = format!(
        "SELECT {} FROM projects p WHERE p.id = $1 AND p.deleted_at IS NULL{lock}",
        columns()
    );
    ProjectRow::read(&tx.one(sql, args![id]).await?)
}

pub(crate) async fn insert(
    tx: &mut Tx,
    organization: OrganizationId,
    new: NewProject,
    now: Timestamp,
) -> Result<ProjectRow> {
    let row = tx
        .one(
            format!(
                "INSERT INTO projects AS p (uuid, organization_id, name, api_token, timezone, \
                 settings, ingested_event, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, FALSE, $7, $7) RETURNING {}, FALSE AS is_private",
                ROW_COLUMNS.replace("p.", "")
            ),
            args![
                Uuid::now_v7(),
                organization,
                new.name.as_str(),
                new.api_token.reveal(),
                new.timezone.as_str(),
                stored_settings(&new.settings),
                now,
            ],
        )
        .await
        .map_err(|error| match error {
            Error::Duplicate { .. } => {
                Error::refused(Some("api_token"), "Another project has this token already.")
            }
            other => other,
        })?;
    let project = ProjectRow::read(&row)?;
    tx.invalidate_project(project.id);
    Ok(project)
}
