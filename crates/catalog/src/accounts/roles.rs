//! Roles: named groups of an organization's members.

use std::collections::HashMap;

use model::{FlagAccess, OrganizationId, Timestamp, User, Window};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::members::{self, Member};
use super::{Roles, organizations};
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::{Row, Tx, args, author};
use crate::{Error, Result};

#[derive(Clone, Debug, Serialize)]
pub struct RoleRow {
    pub id: Uuid,
    pub name: String,
    pub feature_flags_access_level: FlagAccess,
    pub is_default: bool,
    pub created_at: Timestamp,
    pub created_by: Option<User>,
}

/// A membership of a role, as the API serializes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RoleMembership {
    pub id: Uuid,
    pub role_id: Uuid,
    pub organization_member: Member,
    pub user: User,
    pub joined_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A partial update by an administrator; absent fields stay unchanged.
#[derive(Default)]
pub struct RoleChange {
    pub name: Option<String>,
    pub feature_flags_access_level: Option<FlagAccess>,
}

const COLUMNS: &str = "r.id, r.name, r.feature_flags_access_level, r.is_default, r.created_at";
const FROM: &str = "FROM roles r LEFT JOIN users u ON u.id = r.created_by";
const MEMBERSHIP: &str = "x.id AS x_id, x.role_id, x.joined_at AS x_joined_at, \
     x.updated_at AS x_updated_at";
const MEMBERSHIP_FROM: &str = "FROM role_memberships x JOIN memberships m ON m.id = x.membership_id \
     JOIN users u ON u.id = m.user_id";

impl RoleRow {
    fn read(row: &Row) -> Result<Self> {
        let access: i64 = row.get("feature_flags_access_level")?;
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            feature_flags_access_level: FlagAccess::try_from(access)
                .map_err(|why| Error::corrupt("feature_flags_access_level", why))?,
            is_default: row.get("is_default")?,
            created_at: row.get("created_at")?,
            created_by: author::read(row)?,
        })
    }
}

impl RoleMembership {
    fn read(row: &Row) -> Result<Self> {
        let organization_member = Member::read(row)?;
        Ok(Self {
            id: row.get("x_id")?,
            role_id: row.get("role_id")?,
            user: organization_member.user.clone(),
            organization_member,
            joined_at: row.get("x_joined_at")?,
            updated_at: row.get("x_updated_at")?,
        })
    }
}

impl Logged for RoleRow {
    const SCOPE: &'static str = "Role";

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl Roles<'_> {
    /// The roles of an organization, by name.
    pub async fn list(self, of: OrganizationId, window: Window) -> Result<(Vec<RoleRow>, i64)> {
        let count = "SELECT COUNT(*) AS total FROM roles WHERE organization_id = $1";
        let total = self.core.db.one(count, args![of]).await?.get("total")?;
        let sql = format!(
            "SELECT {COLUMNS}, {} {FROM} WHERE r.organization_id = $1 \
             ORDER BY r.name_lower LIMIT $2 OFFSET $3",
            author::COLUMNS
        );
        let rows = self.core.db.all(sql, args![of, window.limit, window.offset]).await?;
        Ok((rows.iter().map(RoleRow::read).collect::<Result<_>>()?, total))
    }

    pub async fn get(self, of: OrganizationId, id: Uuid) -> Result<RoleRow> {
        let sql = format!(
            "SELECT {COLUMNS}, {} {FROM} WHERE r.organization_id = $1 AND r.id = $2",
            author::COLUMNS
        );
        RoleRow::read(&self.core.db.one(sql, args![of, id]).await?)
    }

    /// Several roles of an organization at once, for lists that nest them.
    pub async fn by_ids(self, of: OrganizationId, ids: &[Uuid]) -> Result<Vec<RoleRow>> {
        let sql = format!(
            "SELECT {COLUMNS}, {} {FROM} WHERE r.organization_id = $1 AND r.id IN {{list}}",
            author::COLUMNS
        );
        let id_values: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        let rows = self.core.db.all_in(&sql, args![of], &id_values).await?;
        rows.iter().map(RoleRow::read).collect()
    }

    /// The members of several roles at once, for lists that nest them.
    pub async fn members_of(self, roles: &[Uuid]) -> Result<HashMap<Uuid, Vec<RoleMembership>>> {
        let sql = format!(
            "SELECT {MEMBERSHIP}, {}, {} {MEMBERSHIP_FROM} WHERE x.role_id IN {} \
             ORDER BY x.joined_at, x.id",
            members::COLUMNS,
            author::COLUMNS,
            crate::db::dialect::placeholders(1, roles.len()),
        );
        let rows = self.core.db.all(sql, roles.iter().map(|id| (*id).into()).collect()).await?;
        let mut by_role: HashMap<Uuid, Vec<RoleMembership>> = HashMap::new();
        for row in &rows {
            let membership = RoleMembership::read(row)?;
            by_role.entry(membership.role_id).or_default().push(membership);
        }
        Ok(by_role)
    }

    pub async fn memberships(
        self,
        role: Uuid,
        window: Window,
    ) -> Result<(Vec<RoleMembership>, i64)> {
        let count = "SELECT COUNT(*) AS total FROM role_memberships WHERE role_id = $1";
        let total = self.core.db.one(count, args![role]).await?.get("total")?;
        let sql = format!(
            "SELECT {MEMBERSHIP}, {}, {} {MEMBERSHIP_FROM} WHERE x.role_id = $1 \
             ORDER BY x.joined_at, x.id LIMIT $2 OFFSET $3",
            members::COLUMNS,
            author::COLUMNS,
        );
        let rows = self.core.db.all(sql, args![role, window.limit, window.offset]).await?;
        Ok((rows.iter().map(RoleMembership::read).collect::<Result<_>>()?, total))
    }

    pub async fn membership(self, role: Uuid, id: Uuid) -> Result<RoleMembership> {
        let sql = membership_sql("x.role_id = $1 AND x.id = $2");
        RoleMembership::read(&self.core.db.one(sql, args![role, id]).await?)
    }

    pub async fn create(
        self,
        actor: &Actor,
        name: String,
        feature_flags_access_level: FlagAccess,
    ) -> Result<RoleRow> {
        let id = Uuid::now_v7();
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        tx.run(
            "INSERT INTO roles (id, organization_id, name, name_lower, \
             feature_flags_access_level, is_default, created_at, created_by) \
             VALUES ($1, $2, $3, $4, $5, FALSE, $6, $7)",
            args![
                id,
                actor.organization,
                name.as_str(),
                name.to_lowercase(),
                i64::from(feature_flags_access_level),
                now,
                actor.user,
            ],
        )
        .await
        .map_err(taken)?;
        let role = find(&mut tx, actor.organization, id).await?;
        tx.log_created(actor, &role, now).await?;
        tx.commit().await?;
        Ok(role)
    }

    pub async fn update(self, actor: &Actor, id: Uuid, change: RoleChange) -> Result<RoleRow> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let before = find(&mut tx, actor.organization, id).await?;
        let mut after = before.clone();
        after.name = change.name.unwrap_or(after.name);
        after.feature_flags_access_level =
            change.feature_flags_access_level.unwrap_or(after.feature_flags_access_level);
        tx.run(
            "UPDATE roles SET name = $2, name_lower = $3, feature_flags_access_level = $4 \
             WHERE id = $1",
            args![
                id,
                after.name.as_str(),
                after.name.to_lowercase(),
                i64::from(after.feature_flags_access_level),
            ],
        )
        .await
        .map_err(taken)?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    pub async fn delete(self, actor: &Actor, id: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let role = find(&mut tx, actor.organization, id).await?;
        tx.run("DELETE FROM roles WHERE id = $1", args![id]).await?;
        tx.log_deleted(actor, &role, now).await?;
        tx.commit().await
    }

    pub async fn add_member(self, actor: &Actor, id: Uuid, user: Uuid) -> Result<RoleMembership> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let role = find(&mut tx, actor.organization, id)
            .await
            .map_err(|error| missing(error, "Role does not exist."))?;
        let sql = "SELECT m.id FROM memberships m JOIN users u ON u.id = m.user_id \
                   WHERE m.organization_id = $1 AND u.uuid = $2 AND u.is_active";
        let member = tx
            .one(sql, args![actor.organization, user])
            .await
            .map_err(|error| missing(error, "User does not exist."))?
            .get("id")?;
        let Some(membership_id) = insert(&mut tx, id, member, now).await? else {
            return Err(Error::refused(None, "User is already part of the role."));
        };
        let row = tx.one(membership_sql("x.id = $1"), args![membership_id]).await?;
        let membership = RoleMembership::read(&row)?;
        log_member(&mut tx, actor, &role, &membership, ChangeAction::Created, now).await?;
        tx.commit().await?;
        Ok(membership)
    }

    pub async fn remove_member(self, actor: &Actor, role: Uuid, id: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let role = find(&mut tx, actor.organization, role).await?;
        let sql = membership_sql("x.role_id = $1 AND x.id = $2");
        let membership = RoleMembership::read(&tx.one(sql, args![role.id, id]).await?)?;
        tx.run("DELETE FROM role_memberships WHERE id = $1", args![id]).await?;
        log_member(&mut tx, actor, &role, &membership, ChangeAction::Deleted, now).await?;
        tx.commit().await
    }
}

fn membership_sql(which: &str) -> String {
    format!(
        "SELECT {MEMBERSHIP}, {}, {} {MEMBERSHIP_FROM} WHERE {which}",
        members::COLUMNS,
        author::COLUMNS,
    )
}

fn taken(error: Error) -> Error {
    match error {
        Error::Duplicate { .. } => {
            Error::Taken { field: "name", detail: "There is already a role with this name.".into() }
        }
        other => other,
    }
}

fn missing(error: Error, detail: &str) -> Error {
    match error {
        Error::NotFound => Error::refused(None, detail),
        other => other,
    }
}

async fn find(tx: &mut Tx, of: OrganizationId, id: Uuid) -> Result<RoleRow> {
    let sql = format!(
        "SELECT {COLUMNS}, {} {FROM} WHERE r.organization_id = $1 AND r.id = $2",
        author::COLUMNS
    );
    RoleRow::read(&tx.one(sql, args![of, id]).await?)
}

/// None if the member already has the role.
async fn insert(tx: &mut Tx, role: Uuid, member: Uuid, now: Timestamp) -> Result<Option<Uuid>> {
    let id = Uuid::now_v7();
    let inserted = tx
        .run(
            "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
             VALUES ($1, $2, $3, $4, $4) ON CONFLICT (role_id, membership_id) DO NOTHING",
            args![id, role, member, now],
        )
        .await?;
    Ok((inserted == 1).then_some(id))
}

/// Gives a new member the organization's default role, if it has one.
pub(crate) async fn assign_default(
    tx: &mut Tx,
    organization: OrganizationId,
    member: Uuid,
    now: Timestamp,
) -> Result<()> {
    let sql = "SELECT id FROM roles WHERE organization_id = $1 AND is_default";
    if let Some(role) = tx.optional(sql, args![organization]).await? {
        insert(tx, role.get("id")?, member, now).await?;
    }
    Ok(())
}

async fn log_member(
    tx: &mut Tx,
    actor: &Actor,
    role: &RoleRow,
    membership: &RoleMembership,
    action: ChangeAction,
    now: Timestamp,
) -> Result<()> {
    let email = Some(Value::from(membership.user.email.as_str()));
    let (before, after) = match action {
        ChangeAction::Deleted => (email, None),
        _ => (None, email),
    };
    let scope = RoleRow::SCOPE.into();
    let change = Change { scope, action, field: Some("members".into()), before, after };
    tx.log(actor, "updated", role, vec![change], now).await
}
