//! Personal API keys: stored as a hash, shown once.

use std::time::Duration;

use model::scope::Scopes;
use model::{OrganizationId, ProjectId, Timestamp, UserId, Window};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tokio::time::timeout;
use uuid::Uuid;

use super::Keys;
use super::users::{self, UserRow};
use crate::activity::{Actor, Logged};
use crate::db::secret::{Secret, hash_token};
use crate::db::{Row, Tx, Value, args};
use crate::{Error, Result};

pub const KEYS_PER_USER_MAX: i64 = 10;
/// `last_used_at` is updated at most this often, so that most requests only read.
const LAST_USED_SECONDS: i64 = 3_600;
/// How long a request waits for the write lock to update `last_used_at`.
const TOUCH_WAIT: Duration = Duration::from_millis(250);

/// A key, as the API serializes it. `value` is set only when the key was just created or rolled.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PersonalKey {
    pub id: String,
    pub label: String,
    pub value: Option<String>,
    pub mask_value: String,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub last_rolled_at: Option<Timestamp>,
    pub user_id: UserId,
    pub scopes: Scopes,
    /// None means every project of the owner. It is serialized as an empty list, because PostHog's
    /// clients read its length.
    #[serde(serialize_with = "none_as_empty")]
    #[schemars(with = "Vec<ProjectId>")]
    pub scoped_teams: Option<Vec<ProjectId>>,
    #[serde(serialize_with = "none_as_empty")]
    #[schemars(with = "Vec<OrganizationId>")]
    pub scoped_organizations: Option<Vec<OrganizationId>>,
}

fn none_as_empty<T: Serialize, S: Serializer>(
    list: &Option<Vec<T>>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    list.as_deref().unwrap_or_default().serialize(serializer)
}

pub struct NewKey {
    pub label: String,
    pub scopes: Scopes,
    pub scoped_teams: Option<Vec<ProjectId>>,
    pub scoped_organizations: Option<Vec<OrganizationId>>,
}

/// Who edits keys: their owner, logged in or authenticated by one of the keys.
pub struct KeyEditor<'a> {
    pub owner: UserId,
    pub key: Option<&'a PersonalKey>,
    /// None for a user without organization: nobody could read the log entry.
    pub actor: Option<Actor>,
}

/// A partial update by the key's owner; absent fields stay unchanged.
#[derive(Default)]
pub struct KeyChange {
    pub label: Option<String>,
    pub scopes: Option<Scopes>,
    pub scoped_teams: Option<Option<Vec<ProjectId>>>,
    pub scoped_organizations: Option<Option<Vec<OrganizationId>>>,
}

pub(crate) const COLUMNS: &str = "k.id, k.label, k.mask, k.created_at, k.last_used_at, k.last_rolled_at, \
     k.user_id, k.scopes, k.scoped_teams, k.scoped_organizations";

impl PersonalKey {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            label: row.get("label")?,
            value: None,
            mask_value: row.get("mask")?,
            created_at: row.get("created_at")?,
            last_used_at: row.get("last_used_at")?,
            last_rolled_at: row.get("last_rolled_at")?,
            user_id: row.get("user_id")?,
            scopes: Scopes::parse(row.json("scopes")?)
                .map_err(|why| Error::corrupt("scopes", why))?,
            scoped_teams: list(row, "scoped_teams")?,
            scoped_organizations: list(row, "scoped_organizations")?,
        })
    }
}

fn list<T: serde::de::DeserializeOwned>(row: &Row, name: &'static str) -> Result<Option<Vec<T>>> {
    match row.get::<Option<String>>(name)? {
        None => Ok(None),
        Some(text) => serde_json::from_str(&text).map_err(|why| Error::corrupt(name, why)),
    }
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|why| Error::corrupt("key", why))
}

impl Logged for PersonalKey {
    const SCOPE: &'static str = "PersonalAPIKey";
    const UNLOGGED: &'static [&'static str] = &["value", "last_used_at"];

    fn item_id(&self) -> String {
        self.id.clone()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.label.clone())
    }
}

impl PersonalKey {
    /// Whether `other` grants everything that this key does.
    fn is_within(&self, other: &Self) -> bool {
        self.scopes.beyond(&other.scopes).is_none()
            && is_subset(self.scoped_teams.as_deref(), other.scoped_teams.as_deref())
            && is_subset(
                self.scoped_organizations.as_deref(),
                other.scoped_organizations.as_deref(),
            )
    }

    /// Prevents privilege escalation: a key may only edit keys that grant no more than itself.
    pub fn check_within(&self, by: Option<&Self>) -> Result<()> {
        match by {
            Some(by) if !self.is_within(by) => Err(Error::Forbidden(EXCEEDS_KEY)),
            _ => Ok(()),
        }
    }
}

/// None means no restriction.
fn is_subset<T: PartialEq>(inner: Option<&[T]>, outer: Option<&[T]>) -> bool {
    match (inner, outer) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(inner), Some(outer)) => inner.iter().all(|place| outer.contains(place)),
    }
}

const EXCEEDS_KEY: &str = "An API key cannot manage a key that may do more than itself.";

impl Keys<'_> {
    /// The key and its owner; none for an unknown key or a deactivated owner.
    pub async fn authenticate(self, value: &str) -> Result<Option<(PersonalKey, UserRow)>> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM personal_api_keys k JOIN users u ON u.id = k.user_id \
             WHERE k.hash = $1 AND u.is_active",
            users::columns()
        );
        let Some(row) = self.core.db.optional(sql, args![hash_token(value)]).await? else {
            return Ok(None);
        };
        let (key, user) = (PersonalKey::read(&row)?, UserRow::read(&row)?);
        // A request does not fail because this update did; the next request retries it.
        match timeout(TOUCH_WAIT, self.touch(&key)).await {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => {
                tracing::warn!(error = %cause, "could not update when an API key was last used");
            }
            Err(_) => tracing::debug!(
                "skipped updating when an API key was last used: the catalog is busy"
            ),
        }
        Ok(Some((key, user)))
    }

    async fn touch(self, key: &PersonalKey) -> Result<()> {
        let now = self.core.clock.now();
        if key.last_used_at.is_some_and(|last| now.seconds_since(last) < LAST_USED_SECONDS) {
            return Ok(());
        }
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "UPDATE personal_api_keys SET last_used_at = $2 WHERE id = $1",
            args![key.id.as_str(), now],
        )
        .await?;
        tx.commit().await
    }

    pub async fn list(self, owner: UserId) -> Result<Vec<PersonalKey>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM personal_api_keys k WHERE k.user_id = $1 \
             ORDER BY k.created_at DESC, k.id DESC"
        );
        self.core.db.all(sql, args![owner]).await?.iter().map(PersonalKey::read).collect()
    }

    pub async fn get(self, owner: UserId, id: &str) -> Result<PersonalKey> {
        let sql =
            format!("SELECT {COLUMNS} FROM personal_api_keys k WHERE k.user_id = $1 AND k.id = $2");
        PersonalKey::read(&self.core.db.one(sql, args![owner, id]).await?)
    }

    pub async fn create(self, by: &KeyEditor<'_>, new: NewKey) -> Result<PersonalKey> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let key = insert(&mut tx, by.owner, new, Secret::random("phx_"), now).await?;
        key.check_within(by.key)?;
        if let Some(actor) = &by.actor {
            tx.log_created(actor, &key, now).await?;
        }
        tx.commit().await?;
        Ok(key)
    }

    pub async fn update(
        self,
        by: &KeyEditor<'_>,
        id: &str,
        change: KeyChange,
    ) -> Result<PersonalKey> {
        let mut tx = self.core.db.begin().await?;
        let before = lock(&mut tx, by, id).await?;
        let now = self.core.clock.now();
        let mut after = before.clone();
        after.label = change.label.unwrap_or(after.label);
        after.scopes = change.scopes.unwrap_or(after.scopes);
        after.scoped_teams = change.scoped_teams.unwrap_or(after.scoped_teams);
        after.scoped_organizations =
            change.scoped_organizations.unwrap_or(after.scoped_organizations);
        after.check_within(by.key)?;
        tx.run(
            "UPDATE personal_api_keys SET label = $2, scopes = $3, scoped_teams = $4, \
             scoped_organizations = $5 WHERE id = $1",
            args![
                id,
                after.label.as_str(),
                json(&after.scopes)?,
                after.scoped_teams.as_ref().map(json).transpose()?,
                after.scoped_organizations.as_ref().map(json).transpose()?,
            ],
        )
        .await?;
        if let Some(actor) = &by.actor {
            tx.log_updated(actor, &before, &after, now).await?;
        }
        tx.commit().await?;
        Ok(after)
    }

    /// Replaces the key's value; the old one stops working immediately.
    pub async fn roll(self, by: &KeyEditor<'_>, id: &str) -> Result<PersonalKey> {
        let value = Secret::random("phx_");
        let mut tx = self.core.db.begin().await?;
        let before = lock(&mut tx, by, id).await?;
        let now = self.core.clock.now();
        let after = PersonalKey {
            value: Some(value.reveal().to_owned()),
            mask_value: value.mask(),
            last_rolled_at: Some(now),
            ..before.clone()
        };
        tx.run(
            "UPDATE personal_api_keys SET hash = $2, mask = $3, last_rolled_at = $4 WHERE id = $1",
            args![id, value.hash(), after.mask_value.as_str(), now],
        )
        .await?;
        if let Some(actor) = &by.actor {
            tx.log_updated(actor, &before, &after, now).await?;
        }
        tx.commit().await?;
        Ok(after)
    }

    pub async fn delete(self, by: &KeyEditor<'_>, id: &str) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let key = lock(&mut tx, by, id).await?;
        let now = self.core.clock.now();
        tx.run("DELETE FROM personal_api_keys WHERE id = $1", args![id]).await?;
        if let Some(actor) = &by.actor {
            tx.log_deleted(actor, &key, now).await?;
        }
        tx.commit().await
    }

    /// The keys of all users, with their owners' email addresses.
    pub async fn list_all(self, window: Window) -> Result<Vec<(PersonalKey, String)>> {
        let sql = format!(
            "SELECT {}, u.email FROM personal_api_keys k JOIN users u ON u.id = k.user_id \
             ORDER BY u.email_lower, k.created_at, k.id LIMIT $1 OFFSET $2",
            COLUMNS,
        );
        let rows = self.core.db.all(sql, args![window.limit, window.offset]).await?;
        rows.iter().map(|row| Ok((PersonalKey::read(row)?, row.get("email")?))).collect()
    }
}

async fn lock(tx: &mut Tx, by: &KeyEditor<'_>, id: &str) -> Result<PersonalKey> {
    let lock = tx.dialect().for_update();
    let sql = format!(
        "SELECT {COLUMNS} FROM personal_api_keys k WHERE k.user_id = $1 AND k.id = $2{lock}"
    );
    let key = PersonalKey::read(&tx.one(sql, args![by.owner, id]).await?)?;
    key.check_within(by.key)?;
    Ok(key)
}

/// Locks the owner's row first, so that two concurrent requests cannot both create the last allowed
/// key.
pub(crate) async fn insert(
    tx: &mut Tx,
    owner: UserId,
    new: NewKey,
    value: Secret,
    now: Timestamp,
) -> Result<PersonalKey> {
    let lock = tx.dialect().for_update();
    tx.one(format!("SELECT id FROM users WHERE id = $1{lock}"), args![owner]).await?;
    let count: i64 = tx
        .one("SELECT COUNT(*) AS total FROM personal_api_keys WHERE user_id = $1", args![owner])
        .await?
        .get("total")?;
    if count >= KEYS_PER_USER_MAX {
        return Err(Error::refused(
            None,
            format!(
                "You can only have {KEYS_PER_USER_MAX} personal API keys. \
                 Remove an existing key before creating a new one."
            ),
        ));
    }
    let key = PersonalKey {
        id: Uuid::now_v7().to_string(),
        label: new.label,
        value: Some(value.reveal().to_owned()),
        mask_value: value.mask(),
        created_at: now,
        last_used_at: None,
        last_rolled_at: None,
        user_id: owner,
        scopes: new.scopes,
        scoped_teams: new.scoped_teams,
        scoped_organizations: new.scoped_organizations,
    };
    let values: Vec<Value> = args![
        key.id.as_str(),
        owner,
        key.label.as_str(),
        value.hash(),
        key.mask_value.as_str(),
        json(&key.scopes)?,
        key.scoped_teams.as_ref().map(json).transpose()?,
        key.scoped_organizations.as_ref().map(json).transpose()?,
        now,
    ];
    tx.run(
        "INSERT INTO personal_api_keys (id, user_id, label, hash, mask, scopes, scoped_teams, \
         scoped_organizations, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        values,
    )
    .await?;
    Ok(key)
}
