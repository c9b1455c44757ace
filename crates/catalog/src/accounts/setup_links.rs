//! Setup links: a token, valid once and for a day, by which its holder sets an account's password.
//! The catalog holds the token's hash.

use model::{OrganizationId, ProjectId, Timestamp, UserId};
use uuid::Uuid;

use super::members::{self, Member};
use super::users::{self, UserRow};
use super::{SetupLinks, organizations};
use crate::activity::{Actor, ChangeAction};
use crate::db::secret::Secret;
use crate::db::{Row, Tx, args};
use crate::projects;
use crate::{Error, Result};

const VALID_SECONDS: i64 = 24 * 3_600;

/// A link as it was created; the token cannot be read again.
#[derive(Debug)]
pub struct NewSetupLink {
    pub purpose: SetupPurpose,
    pub token: Secret,
    pub expires_at: Timestamp,
}

/// What a link sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupPurpose {
    /// The first owner's account, organization and project.
    FirstStart,
    /// The password of an account.
    Password,
}

/// A valid link, found by its token.
#[derive(Debug)]
pub struct SetupLink {
    pub purpose: SetupPurpose,
    pub user: UserRow,
}

/// What the holder of a link chose.
pub struct Setup {
    pub password_hash: String,
    pub first_name: Option<String>,
    /// Only for the first start.
    pub instance: Option<InstanceSetup>,
}

pub struct InstanceSetup {
    pub email: String,
    pub organization: String,
    pub project: String,
    pub timezone: String,
}

impl SetupPurpose {
    fn read(row: &Row) -> Result<Self> {
        Ok(match row.get("is_first_start")? {
            true => Self::FirstStart,
            false => Self::Password,
        })
    }
}

impl SetupLinks<'_> {
    /// Whether the first owner has not set a password yet; the link may have expired.
    pub async fn is_first_start_pending(self) -> Result<bool> {
        let sql = "SELECT 1 AS pending FROM setup_links WHERE is_first_start LIMIT 1";
        Ok(self.core.db.optional(sql, args![]).await?.is_some())
    }

    /// A new link for the first owner, whose earlier link ends; none if the first start is complete.
    pub async fn renew_first_start(self) -> Result<Option<NewSetupLink>> {
        let mut tx = self.core.db.begin().await?;
        let sql = "SELECT user_id FROM setup_links WHERE is_first_start LIMIT 1";
        let Some(row) = tx.optional(sql, args![]).await? else { return Ok(None) };
        let now = self.core.clock.now();
        let link = insert(&mut tx, row.get("user_id")?, SetupPurpose::FirstStart, now).await?;
        tx.commit().await?;
        Ok(Some(link))
    }

    /// A link for the operator's use. An account whose first start is pending keeps that purpose.
    pub async fn create(self, user: UserId) -> Result<NewSetupLink> {
        let mut tx = self.core.db.begin().await?;
        let link = renew(&mut tx, user, self.core.clock.now()).await?;
        tx.commit().await?;
        Ok(link)
    }

    /// A link that an administrator gives to a member.
    ///
    /// Whoever holds it can act as the member, so the actor must have at least the member's rights:
    /// in this organization by their level, and elsewhere only as staff.
    pub async fn create_for_member(self, actor: &Actor, user: Uuid) -> Result<NewSetupLink> {
        let mut tx = self.core.db.begin().await?;
        organizations::lock(&mut tx, actor.organization).await?;
        let member = members::find_to_change(&mut tx, actor, user).await?;
        check_may_impersonate(&mut tx, actor, &member).await?;
        let now = self.core.clock.now();
        let link = renew(&mut tx, member.user.id, now).await?;
        tx.log_hidden_change(actor, &member, (ChangeAction::Created, "setup_link"), now).await?;
        tx.commit().await?;
        Ok(link)
    }

    /// The link of a token; none if it was used, replaced or has expired, or the user is
    /// deactivated. The look-up compares hashes, so that its time tells nothing of a token.
    pub async fn find(self, token: &Secret) -> Result<Option<SetupLink>> {
        let row = self.core.db.optional(select(), args![token.hash(), self.core.clock.now()]);
        row.await?.as_ref().map(SetupLink::read).transpose()
    }

    /// Uses the link up: sets the password, ends the user's sessions and returns the user. `None` if
    /// the link is not valid any more.
    pub async fn complete(self, token: &Secret, setup: Setup) -> Result<Option<UserId>> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let Some(row) = tx.optional(select(), args![token.hash(), now]).await? else {
            return Ok(None);
        };
        let SetupLink { user, .. } = SetupLink::read(&row)?;
        let id = user.user.id;
        if let Some(organization) = user.current_organization {
            organizations::lock(&mut tx, organization).await?;
        }
        // Of two concurrent uses, one deletes the row.
        let claimed = "DELETE FROM setup_links WHERE user_id = $1 AND hash = $2";
        if tx.run(claimed, args![id, token.hash()]).await? == 0 {
            return Ok(None);
        }
        let first_name = setup.first_name.unwrap_or(user.user.first_name);
        tx.run(
            "UPDATE users SET password_hash = $2, first_name = $3 WHERE id = $1",
            args![id, setup.password_hash, first_name],
        )
        .await?;
        tx.run("DELETE FROM sessions WHERE user_id = $1", args![id]).await?;
        if let Some(instance) = setup.instance {
            let place = user.current_organization.zip(user.current_project);
            let (organization, project) = place.ok_or(Error::NotFound)?;
            users::set_email(&mut tx, id, &instance.email).await?;
            name_instance(&mut tx, (id, organization, project), instance, now).await?;
        }
        tx.commit().await?;
        Ok(Some(id))
    }
}

impl SetupLink {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self { purpose: SetupPurpose::read(row)?, user: UserRow::read(row)? })
    }
}

fn select() -> String {
    format!(
        "SELECT s.is_first_start, {} FROM setup_links s JOIN users u ON u.id = s.user_id \
         WHERE s.hash = $1 AND s.expires_at > $2 AND u.is_active",
        users::columns()
    )
}

async fn name_instance(
    tx: &mut Tx,
    (owner, organization, project): (UserId, OrganizationId, ProjectId),
    instance: InstanceSetup,
    now: Timestamp,
) -> Result<()> {
    let actor = Actor { user: Some(owner), organization, project: None };
    organizations::rename(tx, &actor, instance.organization, now).await?;
    let actor = Actor { project: Some(project), ..actor };
    projects::rename(tx, &actor, project, (instance.project, instance.timezone), now).await
}

const ONESELF: &str = "You change your own password in your account's settings.";
const STAFF: &str = "This account is staff of the instance. Only staff create setup links for it.";
const FOREIGN: &str = "This account belongs to another organization as well. Staff of this instance \
     create setup links for it, or its owner changes the password.";

async fn check_may_impersonate(tx: &mut Tx, actor: &Actor, member: &Member) -> Result<()> {
    let Some(user) = actor.user else { return Ok(()) };
    if user == member.user.id {
        return Err(Error::Forbidden(ONESELF));
    }
    let sql = "SELECT is_staff, is_active FROM users WHERE id = $1";
    let account = tx.one(sql, args![member.user.id]).await?;
    if !account.get::<bool>("is_active")? {
        return Err(Error::refused(None, "This account is deactivated."));
    }
    if tx.one(sql, args![user]).await?.get::<bool>("is_staff")? {
        return Ok(());
    }
    if account.get("is_staff")? {
        return Err(Error::Forbidden(STAFF));
    }
    let sql = "SELECT 1 AS elsewhere FROM memberships \
               WHERE user_id = $1 AND organization_id <> $2 LIMIT 1";
    match tx.optional(sql, args![member.user.id, actor.organization]).await? {
        Some(_) => Err(Error::Forbidden(FOREIGN)),
        None => Ok(()),
    }
}

/// Replaces the user's link by one of the same purpose, or creates one.
async fn renew(tx: &mut Tx, user: UserId, now: Timestamp) -> Result<NewSetupLink> {
    let sql = "SELECT is_first_start FROM setup_links WHERE user_id = $1";
    let purpose = match tx.optional(sql, args![user]).await? {
        Some(row) => SetupPurpose::read(&row)?,
        None => SetupPurpose::Password,
    };
    insert(tx, user, purpose, now).await
}

pub(crate) async fn insert(
    tx: &mut Tx,
    user: UserId,
    purpose: SetupPurpose,
    now: Timestamp,
) -> Result<NewSetupLink> {
    let (token, expires_at) = (Secret::random(""), now.plus_seconds(VALID_SECONDS));
    tx.run(
        "INSERT INTO setup_links (user_id, hash, is_first_start, created_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (user_id) DO UPDATE SET hash = EXCLUDED.hash, \
         is_first_start = EXCLUDED.is_first_start, created_at = EXCLUDED.created_at, \
         expires_at = EXCLUDED.expires_at",
        args![user, token.hash(), purpose == SetupPurpose::FirstStart, now, expires_at],
    )
    .await?;
    Ok(NewSetupLink { purpose, token, expires_at })
}
