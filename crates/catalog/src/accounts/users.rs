//! User accounts, and the organization and project that each user works in.

use model::{OrganizationId, ProjectId, Timestamp, User, UserId, UserSettings, UserSettingsChange};
use uuid::Uuid;

use super::Users;
use crate::db::secret::Secret;
use crate::db::{Row, Tx, args, author};
use crate::{Error, Result};

/// A user whose current project or organization was deleted falls back to the oldest one left.
const ROW_COLUMNS: &str = "u.password_hash, u.is_active, u.is_staff, u.settings, u.date_joined, u.last_login, \
     COALESCE(u.current_organization_id, (SELECT m.organization_id FROM memberships m \
       WHERE m.user_id = u.id ORDER BY m.joined_at, m.id LIMIT 1)) AS current_organization_id, \
     COALESCE(u.current_project_id, (SELECT MIN(p.id) FROM projects p \
       WHERE p.deleted_at IS NULL AND p.organization_id = COALESCE(u.current_organization_id, \
         (SELECT m.organization_id FROM memberships m \
           WHERE m.user_id = u.id ORDER BY m.joined_at, m.id LIMIT 1)))) AS current_project_id";

#[derive(Clone, Debug)]
pub struct UserRow {
    pub user: User,
    pub password_hash: Option<String>,
    pub is_active: bool,
    pub is_staff: bool,
    pub settings: UserSettings,
    pub current_organization: Option<OrganizationId>,
    pub current_project: Option<ProjectId>,
    pub date_joined: Timestamp,
    pub last_login: Option<Timestamp>,
}

pub struct NewUser {
    pub email: String,
    pub first_name: String,
    pub password_hash: Option<String>,
}

/// A partial update by the user; absent fields stay unchanged.
#[derive(Default)]
pub struct UserChange {
    pub email: Option<NewEmail>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub password: Option<NewPassword>,
    /// The user's current organization and project; without a project, the organization's oldest.
    pub current_project: Option<(OrganizationId, Option<ProjectId>)>,
    pub settings: UserSettingsChange,
}

pub struct NewEmail {
    pub address: String,
    /// Whether somebody other than the account's owner has confirmed the address.
    pub is_verified: bool,
}

/// A new password ends the setup link and every session but `keep_session`.
pub struct NewPassword {
    pub hash: String,
    pub keep_session: Option<Secret>,
}

/// Columns that [`UserRow::read`] needs, for a table joined as `u`.
pub(crate) fn columns() -> String {
    format!("{}, {ROW_COLUMNS}", author::COLUMNS)
}

impl UserRow {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            user: author::read(row)?.ok_or(Error::NotFound)?,
            password_hash: row.get("password_hash")?,
            is_active: row.get("is_active")?,
            is_staff: row.get("is_staff")?,
            settings: UserSettings::stored(row.json("settings")?),
            current_organization: row.get("current_organization_id")?,
            current_project: row.get("current_project_id")?,
            date_joined: row.get("date_joined")?,
            last_login: row.get("last_login")?,
        })
    }
}

impl Users<'_> {
    pub async fn get(self, id: UserId) -> Result<UserRow> {
        let sql = format!("SELECT {} FROM users u WHERE u.id = $1", columns());
        UserRow::read(&self.core.db.one(sql, args![id]).await?)
    }

    pub async fn by_email(self, email: &str) -> Result<Option<UserRow>> {
        let sql = format!("SELECT {} FROM users u WHERE u.email_lower = $1", columns());
        let row = self.core.db.optional(sql, args![email.to_lowercase()]).await?;
        row.as_ref().map(UserRow::read).transpose()
    }

    pub async fn update(self, id: UserId, change: UserChange) -> Result<UserRow> {
        let mut tx = self.core.db.begin().await?;
        let lock = tx.dialect().for_update();
        let sql = format!("SELECT {} FROM users u WHERE u.id = $1{lock}", columns());
        let mut row = UserRow::read(&tx.one(sql, args![id]).await?)?;
        let user = &mut row.user;
        if let Some(NewEmail { address, is_verified }) = change.email {
            (user.email, user.is_email_verified) = (address, is_verified);
        }
        user.first_name = change.first_name.unwrap_or(std::mem::take(&mut user.first_name));
        user.last_name = change.last_name.unwrap_or(std::mem::take(&mut user.last_name));
        if let Some(NewPassword { hash, keep_session }) = change.password {
            row.password_hash = Some(hash);
            let keep = keep_session.map_or_else(String::new, |session| session.hash());
            let others = "DELETE FROM sessions WHERE user_id = $1 AND hash <> $2";
            tx.run(others, args![id, keep]).await?;
            tx.run("DELETE FROM setup_links WHERE user_id = $1", args![id]).await?;
        }
        if let Some((organization, project)) = change.current_project {
            row.current_organization = Some(organization);
            row.current_project = project;
        }
        row.settings.apply(change.settings);
        tx.run(
            "UPDATE users SET email = $2, email_lower = $3, first_name = $4, last_name = $5, \
             password_hash = $6, current_organization_id = $7, current_project_id = $8, \
             settings = $9, is_email_verified = $10 WHERE id = $1",
            args![
                id,
                row.user.email.as_str(),
                row.user.email.to_lowercase(),
                row.user.first_name.as_str(),
                row.user.last_name.as_str(),
                row.password_hash.clone(),
                row.current_organization,
                row.current_project,
                row.settings.to_stored(),
                row.user.is_email_verified,
            ],
        )
        .await
        .map_err(|error| taken(error, "email"))?;
        tx.commit().await?;
        self.get(id).await
    }
}

impl Users<'_> {
    /// A deactivated user cannot log in; sessions end, and keys stop working.
    pub async fn set_active(self, id: UserId, active: bool) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let sql = "UPDATE users SET is_active = $2 WHERE id = $1";
        if tx.run(sql, args![id, active]).await? == 0 {
            return Err(Error::NotFound);
        }
        if !active {
            tx.run("DELETE FROM sessions WHERE user_id = $1", args![id]).await?;
        }
        tx.commit().await
    }
}

impl Users<'_> {
    /// The oldest active account of the instance's staff.
    pub async fn first_staff(self) -> Result<Option<UserRow>> {
        let sql = format!(
            "SELECT {} FROM users u WHERE u.is_staff AND u.is_active ORDER BY u.id LIMIT 1",
            columns()
        );
        let row = self.core.db.optional(sql, args![]).await?;
        row.as_ref().map(UserRow::read).transpose()
    }

    /// Records that the operator has confirmed the account's address.
    pub async fn confirm_email(self, id: UserId) -> Result<()> {
        self.set_flag("UPDATE users SET is_email_verified = $2 WHERE id = $1", id, true).await
    }

    /// Staff may create organizations, and add accounts to other organizations.
    pub async fn set_staff(self, id: UserId, staff: bool) -> Result<()> {
        self.set_flag("UPDATE users SET is_staff = $2 WHERE id = $1", id, staff).await
    }

    async fn set_flag(self, sql: &'static str, id: UserId, value: bool) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        if tx.run(sql, args![id, value]).await? == 0 {
            return Err(Error::NotFound);
        }
        tx.commit().await
    }
}

/// Sets an address that needs no confirmation.
pub(crate) async fn set_email(tx: &mut Tx, id: UserId, email: &str) -> Result<()> {
    let sql =
        "UPDATE users SET email = $2, email_lower = $3, is_email_verified = TRUE WHERE id = $1";
    let values = args![id, email, email.to_lowercase()];
    tx.run(sql, values).await.map(drop).map_err(|error| taken(error, "email"))
}

fn taken(error: Error, field: &'static str) -> Error {
    match error {
        Error::Duplicate { .. } => {
            let detail = "There is already an account with this email address.".into();
            Error::Taken { field, detail }
        }
        other => other,
    }
}

pub(crate) async fn insert(tx: &mut Tx, new: &NewUser, now: Timestamp) -> Result<UserId> {
    tx.one(
        "INSERT INTO users (uuid, distinct_id, email, email_lower, first_name, last_name, \
         password_hash, is_active, is_email_verified, is_staff, settings, date_joined) \
         VALUES ($1, $2, $3, $4, $5, '', $6, TRUE, TRUE, FALSE, '{}', $7) RETURNING id",
        args![
            Uuid::new_v4(),
            Uuid::new_v4(),
            new.email.as_str(),
            new.email.to_lowercase(),
            new.first_name.as_str(),
            new.password_hash.clone(),
            now,
        ],
    )
    .await
    .map_err(|error| taken(error, "email"))?
    .get("id")
}
