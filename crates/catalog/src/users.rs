//! Users: who they are and where they are working.

use std::collections::{BTreeSet, HashMap};

use model::{OrganizationId, ProjectId, Timestamp, User, UserId, UserSettings, UserSettingsChange};
use serde_json::Value;
use uuid::Uuid;

use crate::ask::Ask;
use crate::db::{Row, Tx, args};
use crate::dialect::placeholders;
use crate::{Catalog, Error, Result, Secret};

/// Columns of a nested user, for a table joined as `u`; read by [`nested`].
pub(crate) const NESTED: &str = "u.id AS u_id, u.uuid AS u_uuid, u.distinct_id AS u_distinct_id, \
     u.first_name AS u_first_name, u.last_name AS u_last_name, u.email AS u_email, \
     u.is_email_verified AS u_is_email_verified";

/// Somebody whose project or organization went away works in the oldest that is left.
const OWN: &str = "u.password_hash, u.is_active, u.is_staff, u.settings, u.date_joined, u.last_login, \
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

/// What a user may change; absent fields stay.
#[derive(Default)]
pub struct UserChange {
    pub email: Option<NewEmail>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub password: Option<NewPassword>,
    /// Where the user works from now on; without a project, in the organization's oldest.
    pub workplace: Option<(OrganizationId, Option<ProjectId>)>,
    pub settings: UserSettingsChange,
}

pub struct NewEmail {
    pub address: String,
    /// Whether somebody other than the account's owner vouches for it.
    pub is_verified: bool,
}

/// Ends every session but the one it was changed in.
pub struct NewPassword {
    pub hash: String,
    pub keep: Option<Secret>,
}

/// Columns that [`UserRow::read`] needs, for a table joined as `u`.
pub(crate) fn columns() -> String {
    format!("{NESTED}, {OWN}")
}

impl UserRow {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            user: nested(row)?.ok_or(Error::NotFound)?,
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

/// The same for a second user of one row, joined under another name.
pub(crate) fn nested_as(alias: &str) -> String {
    NESTED.replace("u.", &format!("{alias}.")).replace(" u_", &format!(" {alias}_"))
}

/// The nested user of a row that selected [`NESTED`]; none when the join found nobody.
pub(crate) fn nested(row: &Row) -> Result<Option<User>> {
    nested_of(row, "u")
}

/// The nested user of a row that selected [`nested_as`].
pub(crate) fn nested_of(row: &Row, alias: &str) -> Result<Option<User>> {
    let name = |column: &str| format!("{alias}_{column}");
    let Some(id) = row.get::<Option<UserId>>(&name("id"))? else { return Ok(None) };
    Ok(Some(User {
        id,
        uuid: row.get(&name("uuid"))?,
        distinct_id: row.get(&name("distinct_id"))?,
        first_name: row.get(&name("first_name"))?,
        last_name: row.get(&name("last_name"))?,
        email: row.get(&name("email"))?,
        is_email_verified: row.get(&name("is_email_verified"))?,
        // Settings may be large, and lists repeat their authors: only their owner sees them.
        hedgehog_config: None,
        role_at_organization: None,
    }))
}

/// Several users as objects show their authors, in one query.
pub(crate) async fn of_many(
    ask: &mut impl Ask,
    ids: impl IntoIterator<Item = UserId>,
) -> Result<HashMap<UserId, User>> {
    let ids: BTreeSet<UserId> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let marks = placeholders(1, ids.len());
    let sql = format!("SELECT {NESTED} FROM users u WHERE u.id IN {marks}");
    let rows = ask.ask(sql, ids.into_iter().map(Into::into).collect()).await?;
    let users = rows.iter().filter_map(|row| nested(row).transpose());
    users.map(|user| user.map(|user| (user.id, user))).collect()
}

impl Catalog {
    pub async fn user(&self, id: UserId) -> Result<UserRow> {
        let sql = format!("SELECT {NESTED}, {OWN} FROM users u WHERE u.id = $1");
        UserRow::read(&self.db.one(sql, args![id]).await?)
    }

    pub async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>> {
        let sql = format!("SELECT {NESTED}, {OWN} FROM users u WHERE u.email_lower = $1");
        let row = self.db.optional(sql, args![email.to_lowercase()]).await?;
        row.as_ref().map(UserRow::read).transpose()
    }

    pub async fn update_user(&self, id: UserId, change: UserChange) -> Result<UserRow> {
        let mut tx = self.db.begin().await?;
        let lock = tx.dialect().for_update();
        let sql = format!("SELECT {NESTED}, {OWN} FROM users u WHERE u.id = $1{lock}");
        let mut row = UserRow::read(&tx.one(sql, args![id]).await?)?;
        let user = &mut row.user;
        if let Some(NewEmail { address, is_verified }) = change.email {
            (user.email, user.is_email_verified) = (address, is_verified);
        }
        user.first_name = change.first_name.unwrap_or(std::mem::take(&mut user.first_name));
        user.last_name = change.last_name.unwrap_or(std::mem::take(&mut user.last_name));
        if let Some(NewPassword { hash, keep }) = change.password {
            row.password_hash = Some(hash);
            let keep = keep.map_or_else(String::new, |session| session.hash());
            let others = "DELETE FROM sessions WHERE user_id = $1 AND hash <> $2";
            tx.run(others, args![id, keep]).await?;
        }
        if let Some((organization, project)) = change.workplace {
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
                Value::Object(row.settings.changed().clone()),
                row.user.is_email_verified,
            ],
        )
        .await
        .map_err(|error| taken(error, "email"))?;
        tx.commit().await?;
        self.user(id).await
    }
}

impl Catalog {
    /// A deactivated user cannot log in; sessions end and keys stop working.
    pub async fn set_active(&self, id: UserId, active: bool) -> Result<()> {
        let mut tx = self.db.begin().await?;
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

impl Catalog {
    /// The operator says that the account's address is its owner's.
    pub async fn confirm_email(&self, id: UserId) -> Result<()> {
        self.set_flag("UPDATE users SET is_email_verified = $2 WHERE id = $1", id, true).await
    }

    /// Staff make organizations, and add accounts of one to another.
    pub async fn set_staff(&self, id: UserId, staff: bool) -> Result<()> {
        self.set_flag("UPDATE users SET is_staff = $2 WHERE id = $1", id, staff).await
    }

    async fn set_flag(&self, sql: &'static str, id: UserId, value: bool) -> Result<()> {
        let mut tx = self.db.begin().await?;
        if tx.run(sql, args![id, value]).await? == 0 {
            return Err(Error::NotFound);
        }
        tx.commit().await
    }
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
