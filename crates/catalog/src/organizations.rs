//! Organizations: the roof over projects and people.

use model::{Level, OrganizationId, Timestamp, UserId, Window};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::db::{Row, Tx, args};
use crate::{Actor, Catalog, Error, Logged, Result};

/// How often a name is tried with another suffix before giving up on its slug.
const SLUG_TRIES_MAX: usize = 100;

#[derive(Clone, Debug, serde::Serialize)]
pub struct OrganizationRow {
    pub id: OrganizationId,
    pub name: String,
    pub slug: String,
    /// Switches that people set, by the names the API shows.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What an administrator may change; absent fields stay.
#[derive(Default)]
pub struct OrganizationChange {
    pub name: Option<String>,
    pub settings: Map<String, Value>,
}

const COLUMNS: &str = "o.id, o.name, o.slug, o.settings, o.created_at, o.updated_at";

impl OrganizationRow {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            slug: row.get("slug")?,
            settings: row.json("settings")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }

    /// Public sharing is allowed unless the organization switched it off.
    pub fn switch(&self, name: &str, default: bool) -> bool {
        self.settings.get(name).and_then(Value::as_bool).unwrap_or(default)
    }
}

impl Logged for OrganizationRow {
    const SCOPE: &'static str = "Organization";
    const UNLOGGED: &'static [&'static str] = &["updated_at"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl Catalog {
    pub async fn organization(&self, id: OrganizationId) -> Result<OrganizationRow> {
        let sql = format!("SELECT {COLUMNS} FROM organizations o WHERE o.id = $1");
        OrganizationRow::read(&self.db.one(sql, args![id]).await?)
    }

    /// The organizations a user belongs to, with the user's level in each, oldest first.
    pub async fn organizations_of(
        &self,
        user: UserId,
        window: Window,
    ) -> Result<(Vec<(OrganizationRow, Level)>, i64)> {
        let total = self
            .db
            .one("SELECT COUNT(*) AS total FROM memberships WHERE user_id = $1", args![user])
            .await?
            .get("total")?;
        let sql = format!(
            "SELECT {COLUMNS}, m.level FROM organizations o \
             JOIN memberships m ON m.organization_id = o.id WHERE m.user_id = $1 \
             ORDER BY o.created_at, o.id LIMIT $2 OFFSET $3"
        );
        let rows = self.db.all(sql, args![user, window.limit, window.offset]).await?;
        let found = rows
            .iter()
            .map(|row| Ok((OrganizationRow::read(row)?, crate::members::level(row)?)))
            .collect::<Result<_>>()?;
        Ok((found, total))
    }

    /// Makes an organization owned by `owner`, who moves there.
    pub async fn create_organization(&self, name: &str, owner: UserId) -> Result<OrganizationRow> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let organization = insert(&mut tx, name, now).await?;
        crate::members::insert(&mut tx, organization.id, owner, Level::Owner, now).await?;
        tx.run(
            "UPDATE users SET current_organization_id = $2, current_project_id = NULL WHERE id = $1",
            args![owner, organization.id],
        )
        .await?;
        let actor = Actor { user: Some(owner), organization: organization.id, project: None };
        tx.log_created(&actor, &organization, now).await?;
        tx.commit().await?;
        Ok(organization)
    }

    pub async fn update_organization(
        &self,
        actor: &Actor,
        change: OrganizationChange,
    ) -> Result<OrganizationRow> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let lock = tx.dialect().for_update();
        let sql = format!("SELECT {COLUMNS} FROM organizations o WHERE o.id = $1{lock}");
        let before = OrganizationRow::read(&tx.one(sql, args![actor.organization]).await?)?;
        let mut after = before.clone();
        after.name = change.name.unwrap_or(after.name);
        after.settings.extend(change.settings);
        after.updated_at = now;
        tx.run(
            "UPDATE organizations SET name = $2, settings = $3, updated_at = $4 WHERE id = $1",
            args![
                after.id,
                after.name.as_str(),
                Value::Object(after.settings.clone()),
                after.updated_at
            ],
        )
        .await?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    /// Deletes the organization and hides its projects; their numbers stay taken.
    pub async fn delete_organization(&self, actor: &Actor) -> Result<()> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let remaining: i64 = tx
            .one(
                "SELECT COUNT(*) AS live FROM projects \
                 WHERE organization_id = $1 AND deleted_at IS NULL",
                args![actor.organization],
            )
            .await?
            .get("live")?;
        if remaining > 0 {
            return Err(Error::refused(
                None,
                "Delete the organization's projects before the organization itself.",
            ));
        }
        let gone = tx
            .run("DELETE FROM memberships WHERE organization_id = $1", args![actor.organization])
            .await?;
        tx.run(
            "UPDATE organizations SET slug = id, updated_at = $2 WHERE id = $1",
            args![actor.organization, now],
        )
        .await?;
        if gone == 0 {
            return Err(Error::NotFound);
        }
        tx.run(
            "UPDATE users SET current_organization_id = NULL, current_project_id = NULL \
             WHERE current_organization_id = $1",
            args![actor.organization],
        )
        .await?;
        tx.commit().await
    }
}

pub(crate) async fn insert(tx: &mut Tx, name: &str, now: Timestamp) -> Result<OrganizationRow> {
    let organization = OrganizationRow {
        id: OrganizationId(Uuid::now_v7()),
        name: name.to_owned(),
        slug: free_slug(tx, name).await?,
        settings: Map::new(),
        created_at: now,
        updated_at: now,
    };
    tx.run(
        "INSERT INTO organizations (id, name, slug, settings, created_at, updated_at) \
         VALUES ($1, $2, $3, '{}', $4, $4)",
        args![organization.id, name, organization.slug.as_str(), now],
    )
    .await?;
    Ok(organization)
}

async fn free_slug(tx: &mut Tx, name: &str) -> Result<String> {
    let base = slug(name);
    for attempt in 1..=SLUG_TRIES_MAX {
        let candidate = match attempt {
            1 => base.clone(),
            _ => format!("{base}-{attempt}"),
        };
        let sql = "SELECT 1 AS taken FROM organizations WHERE slug = $1";
        if tx.optional(sql, args![candidate.as_str()]).await?.is_none() {
            return Ok(candidate);
        }
    }
    Ok(format!("{base}-{}", Uuid::new_v4().simple()))
}

/// Lower-case letters and digits, everything else one dash.
fn slug(name: &str) -> String {
    const SLUG_CHARS_MAX: usize = 40;
    let mut slug = String::new();
    for letter in name.chars().take(SLUG_CHARS_MAX).flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "organization".into() } else { slug.into() }
}
