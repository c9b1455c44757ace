//! Collaborators: users who may edit a restricted dashboard besides its author and administrators.

use model::{
    DashboardId, MembershipLevel, Privilege, ProjectId, Restriction, Timestamp, User, Viewer,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::Collaborators;
use super::board::{self, Board, CANNOT_EDIT};
use crate::access::effective_access;
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::{Row, Tx, args, author};
use crate::{Error, Result};

/// A collaborator, as the API serializes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Collaborator {
    pub id: Uuid,
    pub dashboard_id: DashboardId,
    pub user: User,
    pub level: Privilege,
    pub added_at: Timestamp,
    pub updated_at: Timestamp,
    pub user_uuid: Uuid,
}

const COLUMNS: &str = "c.id, c.dashboard_id, c.added_at, c.updated_at";
const FROM: &str = "dashboard_collaborators c JOIN users u ON u.id = c.user_id";

impl Collaborator {
    fn read(row: &Row) -> Result<Self> {
        let user = author::read(row)?.ok_or(Error::NotFound)?;
        Ok(Self {
            id: row.get("id")?,
            dashboard_id: row.get("dashboard_id")?,
            user_uuid: user.uuid,
            user,
            level: Privilege::Edit,
            added_at: row.get("added_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl Collaborators<'_> {
    /// The collaborators of a dashboard, in the order they were added.
    pub async fn list(
        self,
        project: ProjectId,
        dashboard: DashboardId,
    ) -> Result<Vec<Collaborator>> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} JOIN dashboards d ON d.id = c.dashboard_id \
             WHERE d.project_id = $1 AND c.dashboard_id = $2 AND u.is_active \
             ORDER BY c.added_at, c.id",
            author::COLUMNS,
        );
        let rows = self.core.db.all(sql, args![project, dashboard]).await?;
        rows.iter().map(Collaborator::read).collect()
    }

    pub async fn add(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        dashboard: DashboardId,
        (user, level): (Uuid, Privilege),
    ) -> Result<Collaborator> {
        let refused = |detail: &str| Err(Error::refused(None, detail));
        let mut tx = self.core.db.begin().await?;
        let board = board::lock_live(&mut tx, actor, dashboard).await?;
        board.check_may_edit(viewer, CANNOT_EDIT)?;
        if !is_restricted(&board) {
            return refused(
                "Cannot add collaborators to a dashboard on the lowest restriction level.",
            );
        }
        if level != Privilege::Edit {
            return refused("Only edit access can be explicitly specified currently.");
        }
        let sql =
            format!("SELECT {} FROM users u WHERE u.uuid = $1 AND u.is_active", author::COLUMNS);
        let Some(row) = tx.optional(sql, args![user]).await? else {
            return refused("User does not exist.");
        };
        let user = author::read(&row)?.ok_or(Error::NotFound)?;
        let project = board.dashboard.head.team_id;
        let Some(standing) = effective_access(&mut tx, user.id, project).await? else {
            return refused("Cannot add collaborators that have no access to the project.");
        };
        let author = board.dashboard.head.policy().author;
        if standing.level >= MembershipLevel::Admin || author == Some(user.id) {
            return refused(
                "Cannot add collaborators that already have inherent access \
                 (the dashboard owner or a project admins).",
            );
        }
        let now = self.core.clock.now();
        let inserted = tx
            .run(
                "INSERT INTO dashboard_collaborators (id, dashboard_id, user_id, added_at, \
                 updated_at) VALUES ($1, $2, $3, $4, $4) \
                 ON CONFLICT (dashboard_id, user_id) DO NOTHING",
                args![Uuid::now_v7(), dashboard, user.id, now],
            )
            .await?;
        if inserted == 0 {
            return refused("User already is a collaborator.");
        }
        let collaborator = find(&mut tx, dashboard, user.uuid).await?;
        log(&mut tx, actor, &board, &collaborator, ChangeAction::Created, now).await?;
        tx.commit().await?;
        Ok(collaborator)
    }

    pub async fn remove(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        dashboard: DashboardId,
        user: Uuid,
    ) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let board = board::lock_live(&mut tx, actor, dashboard).await?;
        board.check_may_edit(viewer, CANNOT_EDIT)?;
        let collaborator = find(&mut tx, dashboard, user).await?;
        if !is_restricted(&board) {
            let detail =
                "Cannot remove collaborators from a dashboard on the lowest restriction level.";
            return Err(Error::refused(None, detail));
        }
        let sql = "DELETE FROM dashboard_collaborators WHERE id = $1";
        tx.run(sql, args![collaborator.id]).await?;
        let now = self.core.clock.now();
        log(&mut tx, actor, &board, &collaborator, ChangeAction::Deleted, now).await?;
        tx.commit().await
    }
}

fn is_restricted(board: &Board) -> bool {
    board.dashboard.head.restriction_level == Restriction::Collaborators
}

async fn find(tx: &mut Tx, dashboard: DashboardId, user: Uuid) -> Result<Collaborator> {
    let sql = format!(
        "SELECT {COLUMNS}, {} FROM {FROM} WHERE c.dashboard_id = $1 AND u.uuid = $2",
        author::COLUMNS,
    );
    Collaborator::read(&tx.one(sql, args![dashboard, user]).await?)
}

async fn log(
    tx: &mut Tx,
    actor: &Actor,
    board: &Board,
    collaborator: &Collaborator,
    action: ChangeAction,
    now: Timestamp,
) -> Result<()> {
    let email = Some(Value::from(collaborator.user.email.as_str()));
    let (before, after) = match action {
        ChangeAction::Deleted => (email, None),
        _ => (None, email),
    };
    let (scope, field) = (Board::SCOPE.into(), Some("collaborators".into()));
    let change = Change { scope, action, field, before, after };
    tx.log(actor, "updated", board, vec![change], now).await
}
