//! Who belongs to an organization, and at which level.

use model::{Level, OrganizationId, Timestamp, User, UserId, Window};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::db::{Row, Tx, args};
use crate::{Actor, Catalog, Error, Logged, NewUser, Result, users};

/// A membership as the API shows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Member {
    pub id: Uuid,
    pub user: User,
    pub level: Level,
    pub joined_at: Timestamp,
    pub updated_at: Timestamp,
    pub is_2fa_enabled: bool,
    pub has_social_auth: bool,
    pub last_login: Option<Timestamp>,
}

pub(crate) const COLUMNS: &str =
    "m.id AS m_id, m.level, m.joined_at AS m_joined_at, m.updated_at AS m_updated_at, u.last_login";

impl Member {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("m_id")?,
            user: users::nested(row)?.ok_or(Error::NotFound)?,
            level: level(row)?,
            joined_at: row.get("m_joined_at")?,
            updated_at: row.get("m_updated_at")?,
            is_2fa_enabled: false,
            has_social_auth: false,
            last_login: row.get("last_login")?,
        })
    }
}

impl Logged for Member {
    const SCOPE: &'static str = "OrganizationMembership";
    const UNLOGGED: &'static [&'static str] = &["updated_at", "last_login", "user"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.user.email.clone())
    }
}

pub(crate) fn level(row: &Row) -> Result<Level> {
    Level::try_from(row.get::<i64>("level")?).map_err(|why| Error::corrupt("level", why))
}

impl Catalog {
    /// The caller's own level in an organization; none for a stranger.
    pub async fn level_of(&self, user: UserId, in_: OrganizationId) -> Result<Option<Level>> {
        let sql = "SELECT level FROM memberships WHERE organization_id = $1 AND user_id = $2";
        self.db.optional(sql, args![in_, user]).await?.as_ref().map(level).transpose()
    }

    pub async fn members(&self, of: OrganizationId, window: Window) -> Result<(Vec<Member>, i64)> {
        let total = self
            .db
            .one(
                "SELECT COUNT(*) AS total FROM memberships m JOIN users u ON u.id = m.user_id \
                 WHERE m.organization_id = $1 AND u.is_active",
                args![of],
            )
            .await?
            .get("total")?;
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM memberships m JOIN users u ON u.id = m.user_id \
             WHERE m.organization_id = $1 AND u.is_active \
             ORDER BY m.joined_at DESC, m.id LIMIT $2 OFFSET $3",
            users::NESTED,
        );
        let rows = self.db.all(sql, args![of, window.limit, window.offset]).await?;
        Ok((rows.iter().map(Member::read).collect::<Result<_>>()?, total))
    }

    pub async fn member(&self, of: OrganizationId, user: Uuid) -> Result<Member> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM memberships m JOIN users u ON u.id = m.user_id \
             WHERE m.organization_id = $1 AND u.uuid = $2",
            users::NESTED,
        );
        Member::read(&self.db.one(sql, args![of, user]).await?)
    }

    /// Makes a user and the membership at once: self-hosters have no mail server for invites.
    pub async fn add_member(&self, actor: &Actor, new: NewUser, level: Level) -> Result<Member> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let user = users::insert(&mut tx, &new, now).await?;
        insert(&mut tx, actor.organization, user, level, now).await?;
        let first: Option<model::ProjectId> = tx
            .one(
                "SELECT MIN(id) AS id FROM projects \
                 WHERE organization_id = $1 AND deleted_at IS NULL",
                args![actor.organization],
            )
            .await?
            .get("id")?;
        tx.run(
            "UPDATE users SET current_organization_id = $2, current_project_id = $3 WHERE id = $1",
            args![user, actor.organization, first],
        )
        .await?;
        let member = locked(&mut tx, actor.organization, "u.id = $2", args![user]).await?;
        tx.log_created(actor, &member, now).await?;
        tx.commit().await?;
        Ok(member)
    }

    pub async fn set_level(&self, actor: &Actor, user: Uuid, level: Level) -> Result<Member> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let before = locked(&mut tx, actor.organization, "u.uuid = $2", args![user]).await?;
        if before.level == Level::Owner && level < Level::Owner {
            keep_an_owner(&mut tx, actor.organization).await?;
        }
        let after = Member { level, updated_at: now, ..before.clone() };
        tx.run(
            "UPDATE memberships SET level = $2, updated_at = $3 WHERE id = $1",
            args![after.id, i64::from(level), now],
        )
        .await?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    pub async fn remove_member(&self, actor: &Actor, user: Uuid) -> Result<()> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let member = locked(&mut tx, actor.organization, "u.uuid = $2", args![user]).await?;
        if member.level == Level::Owner {
            keep_an_owner(&mut tx, actor.organization).await?;
        }
        tx.run("DELETE FROM memberships WHERE id = $1", args![member.id]).await?;
        tx.run(
            "UPDATE users SET current_organization_id = NULL, current_project_id = NULL \
             WHERE id = $1 AND current_organization_id = $2",
            args![member.user.id, actor.organization],
        )
        .await?;
        tx.log_deleted(actor, &member, now).await?;
        tx.commit().await
    }
}

/// Refuses to take away the last owner, who alone can name another.
async fn keep_an_owner(tx: &mut Tx, of: OrganizationId) -> Result<()> {
    let lock = tx.dialect().for_update();
    let sql = format!("SELECT id FROM memberships WHERE organization_id = $1 AND level = 15{lock}");
    if tx.all(sql, args![of]).await?.len() < 2 {
        return Err(Error::refused(None, "An organization must keep at least one owner."));
    }
    Ok(())
}

async fn locked(
    tx: &mut Tx,
    of: OrganizationId,
    which: &str,
    value: Vec<crate::db::Value>,
) -> Result<Member> {
    let lock = tx.dialect().for_update_of("m");
    let sql = format!(
        "SELECT {COLUMNS}, {} FROM memberships m JOIN users u ON u.id = m.user_id \
         WHERE m.organization_id = $1 AND {which}{lock}",
        users::NESTED,
    );
    let values = args![of].into_iter().chain(value).collect();
    Member::read(&tx.one(sql, values).await?)
}

pub(crate) async fn insert(
    tx: &mut Tx,
    organization: OrganizationId,
    user: UserId,
    level: Level,
    now: Timestamp,
) -> Result<()> {
    tx.run(
        "INSERT INTO memberships (id, organization_id, user_id, level, joined_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $5)",
        args![Uuid::now_v7(), organization, user, i64::from(level), now],
    )
    .await?;
    Ok(())
}
