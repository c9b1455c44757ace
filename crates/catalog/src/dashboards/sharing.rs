//! Public links to dashboards and insights, and their access tokens.

use std::slice;

use model::{
    DashboardId, Insight, InsightId, OrganizationSettings, ProjectId, SharingSettings, Timestamp,
    Viewer,
};
use serde_json::Value;

use super::board::{self, Board, CANNOT_EDIT};
use super::inherited_access::InheritedAccess;
use super::revalidate::CheckedInsights;
use super::{SharingLinks, insights};
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::secret::Secret;
use crate::db::{Row, Tx, args};
use crate::objects::edit::Editable;
use crate::{Error, Result};

/// The object that a link exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareTarget {
    Dashboard(DashboardId),
    Insight(InsightId),
}

/// An object's link, enabled or not.
#[derive(Clone, Debug)]
pub struct SharingConfig {
    pub created_at: Timestamp,
    pub enabled: bool,
    pub access_token: Secret,
    pub settings: Option<SharingSettings>,
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct SharingChange {
    pub enabled: Option<bool>,
    pub settings: Option<Option<SharingSettings>>,
}

/// What a valid token grants access to.
#[derive(Clone, Debug)]
pub struct ResolvedLink {
    pub project: ProjectId,
    pub target: ShareTarget,
    pub settings: SharingSettings,
}

/// PostHog's length: 30 characters, 176 bits.
const TOKEN_BYTES: usize = 22;
/// Our own limit per link: further rotations within the grace period revoke the oldest token.
const RENEWED_MAX: i64 = 100;
/// Expired tokens that one rotation deletes; the rest waits for the next.
const EXPIRED_AT_ONCE_MAX: i64 = 1_000;
const COLUMNS: &str = "created_at, enabled, settings, token_sealed";
const CANNOT_SHARE: &str =
    "You don't have edit permissions for every insight on this dashboard, which a link would show.";
const DISABLED: &str = "Public sharing is disabled for this organization.";

impl ShareTarget {
    fn column(self) -> (&'static str, i64) {
        match self {
            Self::Dashboard(id) => ("dashboard_id", id.0),
            Self::Insight(id) => ("insight_id", id.0),
        }
    }
}

/// The shared object, locked, for its log entries.
enum LockedTarget {
    Board(Box<Board>),
    Insight(Box<Insight>),
}

impl LockedTarget {
    async fn lock(
        tx: &mut Tx,
        actor: &Actor,
        viewer: Viewer<'_>,
        target: ShareTarget,
    ) -> Result<Self> {
        match target {
            ShareTarget::Dashboard(id) => {
                let board = board::lock_live(tx, actor, id).await?;
                board.check_may_edit(viewer, CANNOT_EDIT)?;
                Ok(Self::Board(Box::new(board)))
            }
            ShareTarget::Insight(id) => {
                let insight = Insight::lock(tx, actor, id).await?;
                if insight.deleted {
                    return Err(Error::NotFound);
                }
                if !insight.rights(viewer).can_edit() {
                    return Err(Error::Forbidden(insights::CANNOT_EDIT));
                }
                Ok(Self::Insight(Box::new(insight)))
            }
        }
    }

    /// Sharing a dashboard takes edit access to each insight on it, as sharing them one by one
    /// would.
    async fn check_may_share(
        &self,
        tx: &mut Tx,
        viewer: Viewer<'_>,
        checked: &CheckedInsights,
    ) -> Result<()> {
        let board = match self {
            Self::Board(board) => board,
            Self::Insight(insight) => return checked.revalidate(slice::from_ref(insight)),
        };
        let access = InheritedAccess::of_board(tx, board, viewer).await?;
        let shown: Vec<_> = board.tiles.iter().filter(|tile| !tile.deleted).collect();
        if !shown.iter().all(|tile| access.check_may_edit(&tile.content).is_ok()) {
            return Err(Error::Forbidden(CANNOT_SHARE));
        }
        let shown = shown.iter().filter_map(|tile| tile.insight()).collect();
        checked.revalidate(&insights::by_ids(tx, board.project(), None, shown).await?)
    }

    async fn log(
        &self,
        tx: &mut Tx,
        actor: &Actor,
        activity: &str,
        change: Option<(&str, Option<Value>, Option<Value>)>,
        now: Timestamp,
    ) -> Result<()> {
        let scope = match self {
            Self::Board(_) => Board::SCOPE,
            Self::Insight(_) => Insight::SCOPE,
        };
        let changes = change.into_iter().map(|(field, before, after)| Change {
            scope: scope.into(),
            action: ChangeAction::Changed,
            field: Some(field.into()),
            before,
            after,
        });
        match self {
            Self::Board(board) => tx.log(actor, activity, &**board, changes.collect(), now).await,
            Self::Insight(insight) => {
                tx.log(actor, activity, &**insight, changes.collect(), now).await
            }
        }
    }
}

impl SharingLinks<'_> {
    fn read_sharing(self, row: &Row) -> Result<SharingConfig> {
        Ok(SharingConfig {
            created_at: row.get("created_at")?,
            enabled: row.get("enabled")?,
            access_token: self.core.vault.open(&row.get::<Vec<u8>>("token_sealed")?)?,
            settings: row.optional_json("settings")?.map(SharingSettings::stored),
        })
    }

    async fn find_sharing(self, target: ShareTarget) -> Result<Option<SharingConfig>> {
        let (column, id) = target.column();
        let sql = format!("SELECT {COLUMNS} FROM sharing_configurations WHERE {column} = $1");
        let row = self.core.db.optional(sql, args![id]).await?;
        row.as_ref().map(|row| self.read_sharing(row)).transpose()
    }

    /// Creates the row if it is missing, and locks it.
    async fn lock_or_create(
        self,
        tx: &mut Tx,
        project: ProjectId,
        target: ShareTarget,
        now: Timestamp,
    ) -> Result<SharingConfig> {
        let (column, id) = target.column();
        let token = Secret::random_base64(TOKEN_BYTES);
        let sql = format!(
            "INSERT INTO sharing_configurations (project_id, {column}, enabled, token_hash, \
             token_sealed, created_at) VALUES ($1, $2, FALSE, $3, $4, $5) \
             ON CONFLICT ({column}) DO NOTHING"
        );
        let sealed = self.core.vault.seal(&token)?;
        tx.run(sql, args![project, id, token.hash(), sealed, now]).await?;
        let lock = tx.dialect().for_update();
        let sql = format!("SELECT {COLUMNS} FROM sharing_configurations WHERE {column} = $1{lock}");
        self.read_sharing(&tx.one(sql, args![id]).await?)
    }

    /// An object's link. It is created, disabled, at the first read, so that its token stays the
    /// same.
    pub async fn get_or_create(
        self,
        project: ProjectId,
        target: ShareTarget,
    ) -> Result<SharingConfig> {
        if let Some(existing) = self.find_sharing(target).await? {
            return Ok(existing);
        }
        let mut tx = self.core.db.begin().await?;
        let created = self.lock_or_create(&mut tx, project, target, self.core.clock.now()).await?;
        tx.commit().await?;
        Ok(created)
    }

    pub async fn update(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        target: ShareTarget,
        change: SharingChange,
        checked: &CheckedInsights,
    ) -> Result<SharingConfig> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        let locked = LockedTarget::lock(&mut tx, actor, viewer, target).await?;
        let now = self.core.clock.now();
        let before = self.lock_or_create(&mut tx, project, target, now).await?;
        let mut after = before.clone();
        after.enabled = change.enabled.unwrap_or(after.enabled);
        after.settings = change.settings.unwrap_or(after.settings);
        if change.enabled == Some(true) {
            let sql = "SELECT settings FROM organizations WHERE id = $1";
            let row = tx.one(sql, args![actor.organization]).await?;
            let organization = OrganizationSettings::stored(row.json("settings")?);
            if !organization.allow_publicly_shared_resources() {
                return Err(Error::Forbidden(DISABLED));
            }
        }
        if after.enabled && !before.enabled {
            locked.check_may_share(&mut tx, viewer, checked).await?;
        }
        let (column, id) = target.column();
        let settings = |sharing: &SharingConfig| {
            sharing.settings.clone().map(|settings| Value::Object(settings.into_stored()))
        };
        let sql = format!(
            "UPDATE sharing_configurations SET enabled = $2, settings = $3 WHERE {column} = $1"
        );
        tx.run(sql, args![id, after.enabled, settings(&after)]).await?;
        if after.enabled != before.enabled {
            let activity = if after.enabled { "sharing enabled" } else { "sharing disabled" };
            let values = (Some(before.enabled.into()), Some(after.enabled.into()));
            let change = Some(("is_shared", values.0, values.1));
            locked.log(&mut tx, actor, activity, change, now).await?;
        }
        if after.settings != before.settings {
            let change = Some(("sharing_settings", settings(&before), settings(&after)));
            locked.log(&mut tx, actor, "updated", change, now).await?;
        }
        tx.commit().await?;
        Ok(after)
    }

    /// Replaces the token. Each earlier one stays valid for the grace period, so that embedded
    /// pages can be updated.
    pub async fn rotate_token(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        target: ShareTarget,
        grace_seconds: i64,
        checked: &CheckedInsights,
    ) -> Result<SharingConfig> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        let locked = LockedTarget::lock(&mut tx, actor, viewer, target).await?;
        locked.check_may_share(&mut tx, viewer, checked).await?;
        let now = self.core.clock.now();
        let mut sharing = self.lock_or_create(&mut tx, project, target, now).await?;
        sharing.access_token = Secret::random_base64(TOKEN_BYTES);
        let (column, id) = target.column();
        // Ordered, as all writers delete them, which prevents deadlocks.
        let lock = tx.dialect().for_update();
        let sql = format!(
            "DELETE FROM sharing_tokens WHERE id IN (SELECT id FROM sharing_tokens \
             WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2{lock})"
        );
        tx.run(sql, args![now, EXPIRED_AT_ONCE_MAX]).await?;
        let sql = format!(
            "INSERT INTO sharing_tokens (sharing_id, token_hash, expires_at) \
             SELECT id, token_hash, $2 FROM sharing_configurations WHERE {column} = $1 \
             RETURNING sharing_id"
        );
        let row = tx.one(sql, args![id, now.plus_seconds(grace_seconds)]).await?;
        let link: i64 = row.get("sharing_id")?;
        let sql = "DELETE FROM sharing_tokens WHERE sharing_id = $1 AND id NOT IN \
                   (SELECT id FROM sharing_tokens WHERE sharing_id = $1 \
                   ORDER BY id DESC LIMIT $2)";
        tx.run(sql, args![link, RENEWED_MAX]).await?;
        let token = &sharing.access_token;
        let sealed = self.core.vault.seal(token)?;
        let sql = "UPDATE sharing_configurations SET token_hash = $2, token_sealed = $3 \
                   WHERE id = $1";
        tx.run(sql, args![link, token.hash(), sealed]).await?;
        locked.log(&mut tx, actor, "access token refreshed", None, now).await?;
        tx.commit().await?;
        Ok(sharing)
    }

    /// The object that a token grants access to; none if the token is unknown or expired, the link
    /// is disabled, or the organization forbids sharing.
    pub async fn resolve(self, token: &str) -> Result<Option<ResolvedLink>> {
        let sql = "SELECT s.project_id, s.dashboard_id, s.insight_id, s.settings, \
                   o.settings AS organization_settings FROM sharing_configurations s \
                   JOIN projects p ON p.id = s.project_id \
                   JOIN organizations o ON o.id = p.organization_id \
                   WHERE s.enabled AND p.deleted_at IS NULL AND o.deleted_at IS NULL \
                   AND s.id IN (SELECT id FROM sharing_configurations WHERE token_hash = $1 \
                   UNION ALL SELECT sharing_id FROM sharing_tokens \
                   WHERE token_hash = $1 AND expires_at > $2)";
        let hash = Secret::given(token).hash();
        let Some(row) = self.core.db.optional(sql, args![hash, self.core.clock.now()]).await?
        else {
            return Ok(None);
        };
        let organization = OrganizationSettings::stored(row.json("organization_settings")?);
        let target = match (row.get("dashboard_id")?, row.get("insight_id")?) {
            (Some(id), _) => ShareTarget::Dashboard(id),
            (None, Some(id)) => ShareTarget::Insight(id),
            (None, None) => return Ok(None),
        };
        let settings = SharingSettings::stored(row.optional_json("settings")?.unwrap_or_default());
        let project = row.get("project_id")?;
        let allowed = organization.allow_publicly_shared_resources();
        Ok(allowed.then_some(ResolvedLink { project, target, settings }))
    }
}
