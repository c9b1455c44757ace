//! Roles that may edit single flags.

use std::collections::HashMap;

use model::{FlagAccess, FlagId, OrganizationId, Timestamp, UserId, Window};
use uuid::Uuid;

use super::Flags;
use crate::activity::Actor;
use crate::db::select::Condition;
use crate::db::{Row, args};
use crate::{Error, Result};

/// A role's permission to edit one flag.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleGrant {
    pub id: i64,
    pub flag: FlagId,
    pub role: Uuid,
    pub added_at: Timestamp,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "a.id, a.flag_id, a.role_id, a.added_at, a.updated_at";
const FROM: &str = "feature_flag_role_access a";

fn read(row: &Row) -> Result<RoleGrant> {
    Ok(RoleGrant {
        id: row.get("id")?,
        flag: row.get("flag_id")?,
        role: row.get("role_id")?,
        added_at: row.get("added_at")?,
        updated_at: row.get("updated_at")?,
    })
}

impl Flags<'_> {
    /// Oldest first.
    pub async fn role_grants(self, flag: FlagId, window: Window) -> Result<(Vec<RoleGrant>, i64)> {
        let condition = Condition::new("a.flag_id = $1", args![flag]);
        let (rows, total) = self.core.db.page(COLUMNS, FROM, condition, "a.id", window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    pub async fn role_grant(self, flag: FlagId, id: i64) -> Result<RoleGrant> {
        let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE a.flag_id = $1 AND a.id = $2");
        read(&self.core.db.one(sql, args![flag, id]).await?)
    }

    pub async fn grant_role(self, actor: &Actor, flag: FlagId, role: Uuid) -> Result<RoleGrant> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let sql = "SELECT id FROM roles WHERE organization_id = $1 AND id = $2";
        if tx.optional(sql, args![actor.organization, role]).await?.is_none() {
            let detail = format!("Invalid pk \"{role}\" - object does not exist.");
            return Err(Error::Invalid { field: "role_id", code: "does_not_exist", detail });
        }
        let sql = "INSERT INTO feature_flag_role_access (flag_id, role_id, added_at, updated_at) \
                   VALUES ($1, $2, $3, $3) RETURNING id";
        let taken = |error| match error {
            Error::Duplicate { .. } => {
                let detail = "This role has access already.".into();
                Error::Taken { field: "role_id", detail }
            }
            other => other,
        };
        let id = tx.one(sql, args![flag, role, now]).await.map_err(taken)?.get("id")?;
        tx.commit().await?;
        Ok(RoleGrant { id, flag, role, added_at: now, updated_at: now })
    }

    pub async fn revoke_role(self, flag: FlagId, id: i64) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let sql = "DELETE FROM feature_flag_role_access WHERE flag_id = $1 AND id = $2";
        if tx.run(sql, args![flag, id]).await? == 0 {
            return Err(Error::NotFound);
        }
        tx.commit().await
    }

    /// The live flags granted to each role, as `(id, key)`.
    pub async fn by_roles(self, roles: &[Uuid]) -> Result<HashMap<Uuid, Vec<(FlagId, String)>>> {
        let sql = format!(
            "SELECT a.role_id, f.id, f.key FROM {FROM} \
             JOIN feature_flags f ON f.id = a.flag_id \
             WHERE NOT f.deleted AND a.role_id IN {{list}} ORDER BY f.key"
        );
        let role_ids: Vec<_> = roles.iter().map(|role| (*role).into()).collect();
        let mut by_role: HashMap<Uuid, Vec<(FlagId, String)>> = HashMap::new();
        for row in self.core.db.all_in(&sql, args![], &role_ids).await? {
            let flag = (row.get("id")?, row.get("key")?);
            by_role.entry(row.get("role_id")?).or_default().push(flag);
        }
        Ok(by_role)
    }

    /// Whether one of the user's roles may edit every flag, and the flags granted to the user's
    /// roles one by one.
    pub async fn edit_rights(
        self,
        organization: OrganizationId,
        user: UserId,
    ) -> Result<(bool, Vec<FlagId>)> {
        let sql = "SELECT r.feature_flags_access_level, a.flag_id FROM roles r \
                   JOIN role_memberships x ON x.role_id = r.id \
                   JOIN memberships m ON m.id = x.membership_id \
                   LEFT JOIN feature_flag_role_access a ON a.role_id = r.id \
                   WHERE r.organization_id = $1 AND m.user_id = $2";
        let (mut edits_all, mut flags) = (false, Vec::new());
        for row in self.core.db.all(sql, args![organization, user]).await? {
            let level: i64 = row.get("feature_flags_access_level")?;
            edits_all |= level >= i64::from(FlagAccess::Edit);
            flags.extend(row.get::<Option<FlagId>>("flag_id")?);
        }
        Ok((edits_all, flags))
    }
}
