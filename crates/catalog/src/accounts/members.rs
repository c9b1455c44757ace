//! Memberships: which users belong to an organization, and at which level.

use model::{MembershipLevel, OrganizationId, Timestamp, User, UserId, Window};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::users::{self, NewUser};
use super::{Members, organizations, roles};
use crate::activity::{Actor, Logged};
use crate::db::{Row, Tx, args, author};
use crate::{Error, Result, access};

/// A membership, as the API serializes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Member {
    pub id: Uuid,
    pub user: User,
    pub level: MembershipLevel,
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
            user: author::read(row)?.ok_or(Error::NotFound)?,
            level: row.get("level")?,
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

/// A user's access to an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAccess {
    pub level: MembershipLevel,
    /// Whether the organization allows this user to authenticate with a personal API key.
    pub may_use_keys: bool,
}

const FROM: &str = "FROM memberships m JOIN users u ON u.id = m.user_id";

impl Members<'_> {
    /// None for non-members.
    pub async fn access(self, user: UserId, in_: OrganizationId) -> Result<Option<MemberAccess>> {
        let sql = "SELECT m.level, o.members_can_use_personal_api_keys AS keys \
                   FROM memberships m JOIN organizations o ON o.id = m.organization_id \
                   WHERE m.organization_id = $1 AND m.user_id = $2";
        let row = self.core.db.optional(sql, args![in_, user]).await?;
        row.map(|row| {
            let level: MembershipLevel = row.get("level")?;
            Ok(MemberAccess {
                level,
                may_use_keys: level > MembershipLevel::Member || row.get("keys")?,
            })
        })
        .transpose()
    }

    pub async fn list(self, of: OrganizationId, window: Window) -> Result<(Vec<Member>, i64)> {
        let which = "m.organization_id = $1 AND u.is_active";
        let count = format!("SELECT COUNT(*) AS total {FROM} WHERE {which}");
        let total = self.core.db.one(count, args![of]).await?.get("total")?;
        let sql = format!(
            "SELECT {COLUMNS}, {} {FROM} WHERE {which} \
             ORDER BY m.joined_at DESC, m.id DESC LIMIT $2 OFFSET $3",
            author::COLUMNS,
        );
        let rows = self.core.db.all(sql, args![of, window.limit, window.offset]).await?;
        Ok((rows.iter().map(Member::read).collect::<Result<_>>()?, total))
    }

    pub async fn get(self, of: OrganizationId, user: Uuid) -> Result<Member> {
        let sql = format!(
            "SELECT {COLUMNS}, {} {FROM} WHERE m.organization_id = $1 AND u.uuid = $2",
            author::COLUMNS,
        );
        Member::read(&self.core.db.one(sql, args![of, user]).await?)
    }

    /// Creates a user and a membership. There are no invitations, since most self-hosters have no
    /// mail server.
    pub async fn add(self, actor: &Actor, new: NewUser, level: MembershipLevel) -> Result<Member> {
        let mut tx = self.core.db.begin().await?;
        check_may_add(&mut tx, actor, level).await?;
        let now = self.core.clock.now();
        let user = create_user(&mut tx, actor.organization, &new, now).await?;
        join(tx, actor, user, level, now).await
    }

    /// Adds an existing account to the organization; it keeps its password.
    ///
    /// Without a mail server nobody has verified the address: an administrator elsewhere may have
    /// created the account for an address they do not own. So only staff, or an administrator of
    /// another organization of the account, may add it.
    pub async fn add_account(
        self,
        actor: &Actor,
        email: &str,
        level: MembershipLevel,
        password: RequestPassword,
    ) -> Result<Member> {
        let mut tx = self.core.db.begin().await?;
        check_may_add(&mut tx, actor, level).await?;
        let now = self.core.clock.now();
        let user = find_addable(&mut tx, actor, email, password).await?;
        join(tx, actor, user, level, now).await
    }

    /// Nobody may grant a level above their actor_level, or change a member of a higher level.
    pub async fn set_level(
        self,
        actor: &Actor,
        user: Uuid,
        level: MembershipLevel,
    ) -> Result<Member> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let actor_level = actor_level(&mut tx, actor).await?;
        let before = find(&mut tx, actor.organization, "u.uuid = $2", args![user]).await?;
        if actor.user != Some(before.user.id) {
            check_outranks(actor_level, before.level)?;
        }
        if level > actor_level {
            return Err(Error::Forbidden(ABOVE_ONESELF));
        }
        if before.level == MembershipLevel::Owner && level < MembershipLevel::Owner {
            check_not_last_owner(&mut tx, actor.organization, &before).await?;
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

    /// Any member may leave; removing others takes an administrator.
    pub async fn remove(self, actor: &Actor, user: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let actor_level = actor_level(&mut tx, actor).await?;
        let member = find(&mut tx, actor.organization, "u.uuid = $2", args![user]).await?;
        if actor.user != Some(member.user.id) {
            check_outranks(actor_level, member.level)?;
        }
        if member.level == MembershipLevel::Owner {
            check_not_last_owner(&mut tx, actor.organization, &member).await?;
        }
        tx.run("DELETE FROM memberships WHERE id = $1", args![member.id]).await?;
        // A member who joins again must be added as a collaborator again.
        tx.run(
            "DELETE FROM dashboard_collaborators WHERE user_id = $1 AND dashboard_id IN \
             (SELECT d.id FROM dashboards d JOIN projects p ON p.id = d.project_id \
             WHERE p.organization_id = $2)",
            args![member.user.id, actor.organization],
        )
        .await?;
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

/// Whether a request to add an existing account carries a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPassword {
    /// The account keeps its password.
    Absent,
    /// Refused: the password would be ignored, or be another person's.
    Present,
}

/// The member, if the actor's level allows changes of it. The caller holds the organization's lock.
pub(crate) async fn find_to_change(tx: &mut Tx, actor: &Actor, user: Uuid) -> Result<Member> {
    let actor_level = actor_level(tx, actor).await?;
    let member = find(tx, actor.organization, "u.uuid = $2", args![user]).await?;
    check_outranks(actor_level, member.level)?;
    Ok(member)
}

const NOT_ADMIN: &str = "Your organization access level is insufficient.";
const ABOVE_ONESELF: &str = "You cannot give an access level higher than your own.";
const OUTRANKED: &str = "You cannot change a member whose access level is higher than yours.";

fn check_outranks(actor_level: MembershipLevel, other: MembershipLevel) -> Result<()> {
    match actor_level {
        MembershipLevel::Member => Err(Error::Forbidden(NOT_ADMIN)),
        _ if other > actor_level => Err(Error::Forbidden(OUTRANKED)),
        _ => Ok(()),
    }
}

/// Reads the actor's level under the organization's lock, so that a concurrent demotion takes
/// effect. The server itself acts as owner.
async fn actor_level(tx: &mut Tx, actor: &Actor) -> Result<MembershipLevel> {
    let Some(user) = actor.user else { return Ok(MembershipLevel::Owner) };
    let sql = "SELECT level FROM memberships WHERE organization_id = $1 AND user_id = $2";
    match tx.optional(sql, args![actor.organization, user]).await? {
        Some(row) => row.get("level"),
        None => Err(Error::Forbidden(NOT_ADMIN)),
    }
}

/// Refuses to remove the last owner; only an owner can appoint another.
async fn check_not_last_owner(tx: &mut Tx, of: OrganizationId, leaving: &Member) -> Result<()> {
    let sql = format!(
        "SELECT COUNT(*) AS others {FROM} WHERE m.organization_id = $1 AND m.level = $2 \
         AND u.is_active AND m.id <> $3"
    );
    let values = args![of, i64::from(MembershipLevel::Owner), leaving.id];
    if tx.one(sql, values).await?.get::<i64>("others")? == 0 {
        return Err(Error::refused(None, "An organization must keep at least one owner."));
    }
    Ok(())
}

const HAS_PASSWORD: &str = "There is already an account with this email address. It keeps its \
     password: leave `password` out to add the account to the organization.";
const UNCONFIRMED: &str = "The owner of this account changed its email address, which nobody has \
     confirmed. The operator confirms it with `hedgerow admin confirm-email`.";
const FOREIGN: &str = "This account belongs to another organization. Staff of this instance add \
     it, or somebody who administers an organization that it belongs to.";

/// Checks that the actor may add a member of this level, and locks the organization.
async fn check_may_add(tx: &mut Tx, actor: &Actor, level: MembershipLevel) -> Result<()> {
    organizations::lock(tx, actor.organization).await?;
    let actor_level = actor_level(tx, actor).await?;
    if actor_level < MembershipLevel::Admin {
        return Err(Error::Forbidden(NOT_ADMIN));
    }
    if level > actor_level {
        return Err(Error::Forbidden(ABOVE_ONESELF));
    }
    Ok(())
}

async fn join(
    mut tx: Tx,
    actor: &Actor,
    user: UserId,
    level: MembershipLevel,
    now: Timestamp,
) -> Result<Member> {
    let membership = insert(&mut tx, actor.organization, user, level, now).await?;
    roles::assign_default(&mut tx, actor.organization, membership, now).await?;
    let member = find(&mut tx, actor.organization, "u.id = $2", args![user]).await?;
    tx.log_created(actor, &member, now).await?;
    tx.commit().await?;
    Ok(member)
}

/// The existing account with this email address, if the actor may add it.
async fn find_addable(
    tx: &mut Tx,
    actor: &Actor,
    email: &str,
    password: RequestPassword,
) -> Result<UserId> {
    let sql = "SELECT u.id, u.is_active, u.is_email_verified, m.id IS NOT NULL AS is_member \
               FROM users u \
               LEFT JOIN memberships m ON m.user_id = u.id AND m.organization_id = $2 \
               WHERE u.email_lower = $1";
    let row = tx.one(sql, args![email.to_lowercase(), actor.organization]).await?;
    if row.get("is_member")? {
        let detail = "This user is already a member of the organization.".into();
        return Err(Error::Taken { field: "email", detail });
    }
    if password == RequestPassword::Present {
        return Err(Error::refused(Some("password"), HAS_PASSWORD));
    }
    let user = row.get("id")?;
    if !can_vouch(tx, actor, user).await? {
        return Err(Error::Forbidden(FOREIGN));
    }
    if !row.get::<bool>("is_active")? {
        return Err(Error::refused(Some("email"), "This account is deactivated."));
    }
    if !row.get::<bool>("is_email_verified")? {
        return Err(Error::refused(Some("email"), UNCONFIRMED));
    }
    Ok(user)
}

/// Whether the actor can vouch for the owner of an account: staff, or administrators of one of its
/// organizations.
async fn can_vouch(tx: &mut Tx, actor: &Actor, account: UserId) -> Result<bool> {
    let Some(user) = actor.user else { return Ok(true) };
    let sql = "SELECT 1 AS vouches FROM users s WHERE s.id = $1 AND (s.is_staff OR EXISTS \
               (SELECT 1 FROM memberships own JOIN memberships theirs \
               ON theirs.organization_id = own.organization_id AND theirs.user_id = $2 \
               WHERE own.user_id = s.id AND own.level >= $3))";
    Ok(tx.optional(sql, args![user, account, i64::from(MembershipLevel::Admin)]).await?.is_some())
}

/// Creates a user whose current project is the oldest one of the organization that is open to
/// everyone.
async fn create_user(
    tx: &mut Tx,
    organization: OrganizationId,
    new: &NewUser,
    now: Timestamp,
) -> Result<UserId> {
    let user = users::insert(tx, new, now).await?;
    let sql = format!(
        "UPDATE users SET current_organization_id = $2, current_project_id = \
         (SELECT MIN(p.id) FROM projects p WHERE p.organization_id = $2 \
         AND p.deleted_at IS NULL AND NOT {}) WHERE id = $1",
        access::IS_PRIVATE
    );
    tx.run(sql, args![user, organization]).await?;
    Ok(user)
}

async fn find(
    tx: &mut Tx,
    of: OrganizationId,
    which: &str,
    value: Vec<crate::db::Value>,
) -> Result<Member> {
    let sql = format!(
        "SELECT {COLUMNS}, {} {FROM} WHERE m.organization_id = $1 AND {which}",
        author::COLUMNS,
    );
    let values = args![of].into_iter().chain(value).collect();
    Member::read(&tx.one(sql, values).await?)
}

pub(crate) async fn insert(
    tx: &mut Tx,
    organization: OrganizationId,
    user: UserId,
    level: MembershipLevel,
    now: Timestamp,
) -> Result<Uuid> {
    let id = Uuid::now_v7();
    tx.run(
        "INSERT INTO memberships (id, organization_id, user_id, level, joined_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $5)",
        args![id, organization, user, i64::from(level), now],
    )
    .await?;
    Ok(id)
}
