//! Organizations, which own projects and have members.

use std::collections::HashMap;

use model::{
    MembershipLevel, OrganizationId, OrganizationSettings, OrganizationSettingsChange, Timestamp,
    UserId, Window,
};
use uuid::Uuid;

use super::keys::PersonalKey;
use super::{Organizations, members};
use crate::activity::{Actor, Logged};
use crate::db::{Row, Tx, args};
use crate::projects::{self, NewProject};
use crate::{Error, Result};

/// How many numbered slugs are tried before one with a random suffix.
const SLUG_TRIES_MAX: usize = 100;

#[derive(Clone, Debug, serde::Serialize)]
pub struct OrganizationRow {
    pub id: OrganizationId,
    pub name: String,
    pub slug: String,
    /// The role that new members start with.
    pub default_role_id: Option<Uuid>,
    #[serde(flatten)]
    pub settings: OrganizationSettings,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A partial update by an administrator; absent fields stay unchanged.
#[derive(Default)]
pub struct OrganizationChange {
    pub name: Option<String>,
    pub default_role_id: Option<Option<Uuid>>,
    pub settings: OrganizationSettingsChange,
}

const COLUMNS: &str = "o.id, o.name, o.slug, o.settings, o.created_at, o.updated_at, \
     (SELECT r.id FROM roles r WHERE r.organization_id = o.id AND r.is_default) AS default_role_id";

impl OrganizationRow {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            slug: row.get("slug")?,
            default_role_id: row.get("default_role_id")?,
            settings: OrganizationSettings::stored(row.json("settings")?),
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
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

impl Organizations<'_> {
    pub async fn get(self, id: OrganizationId) -> Result<OrganizationRow> {
        let sql = format!(
            "SELECT {COLUMNS} FROM organizations o WHERE o.id = $1 AND o.deleted_at IS NULL"
        );
        OrganizationRow::read(&self.core.db.one(sql, args![id]).await?)
    }

    /// The organizations of a user, with the user's level in each, oldest first. A key narrows them
    /// to those it grants access to.
    pub async fn of_user(
        self,
        user: UserId,
        by: Option<&PersonalKey>,
        window: Window,
    ) -> Result<(Vec<(OrganizationRow, MembershipLevel)>, i64)> {
        let mut from = String::from(
            "FROM organizations o JOIN memberships m ON m.organization_id = o.id \
             WHERE m.user_id = $1",
        );
        let mut values = args![user];
        if let Some(key) = by {
            from += " AND (o.members_can_use_personal_api_keys OR m.level > $2)";
            values.extend(args![i64::from(MembershipLevel::Member)]);
            if let Some(only) = &key.scoped_organizations {
                let marks = crate::db::dialect::placeholders(values.len() + 1, only.len());
                from += &format!(" AND o.id IN {marks}");
                values.extend(only.iter().map(|id| (*id).into()));
            }
        }
        let count = format!("SELECT COUNT(*) AS total {from}");
        let total = self.core.db.one(count, values.clone()).await?.get("total")?;
        let next = values.len() + 1;
        let sql = format!(
            "SELECT {COLUMNS}, m.level {from} ORDER BY o.created_at, o.id \
             LIMIT ${next} OFFSET ${}",
            next + 1
        );
        values.extend(args![window.limit, window.offset]);
        let rows = self.core.db.all(sql, values).await?;
        let organizations = rows
            .iter()
            .map(|row| Ok((OrganizationRow::read(row)?, row.get("level")?)))
            .collect::<Result<_>>()?;
        Ok((organizations, total))
    }

    /// The number of active members of each organization.
    pub async fn member_counts(
        self,
        of: &[OrganizationId],
    ) -> Result<HashMap<OrganizationId, i64>> {
        let sql = format!(
            "SELECT m.organization_id, COUNT(*) AS total FROM memberships m \
             JOIN users u ON u.id = m.user_id \
             WHERE m.organization_id IN {} AND u.is_active GROUP BY m.organization_id",
            crate::db::dialect::placeholders(1, of.len())
        );
        let rows = self.core.db.all(sql, of.iter().map(|id| (*id).into()).collect()).await?;
        rows.iter().map(|row| Ok((row.get("organization_id")?, row.get("total")?))).collect()
    }

    /// Creates an organization with a first project, both owned by `owner`, and switches `owner` to
    /// them.
    pub async fn create(self, owner: UserId, given: OrganizationChange) -> Result<OrganizationRow> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let name = given.name.as_deref().unwrap_or_default();
        let mut organization = insert(&mut tx, name, now).await?;
        if given.default_role_id.flatten().is_some() {
            return Err(no_such_role());
        }
        organization.settings.apply(given.settings);
        store(&mut tx, &organization).await?;
        members::insert(&mut tx, organization.id, owner, MembershipLevel::Owner, now).await?;
        let project = projects::insert(&mut tx, organization.id, NewProject::first(), now).await?;
        tx.run(
            "UPDATE users SET current_organization_id = $2, current_project_id = $3 WHERE id = $1",
            args![owner, organization.id, project.id],
        )
        .await?;
        let actor = Actor { user: Some(owner), organization: organization.id, project: None };
        tx.log_created(&actor, &organization, now).await?;
        let actor = Actor { project: Some(project.id), ..actor };
        tx.log_created(&actor, &project, now).await?;
        tx.commit().await?;
        Ok(organization)
    }

    pub async fn update(
        self,
        actor: &Actor,
        change: OrganizationChange,
    ) -> Result<OrganizationRow> {
        let mut tx = self.core.db.begin().await?;
        let before = lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        let mut after = before.clone();
        after.name = change.name.unwrap_or(after.name);
        after.default_role_id = change.default_role_id.unwrap_or(after.default_role_id);
        after.settings.apply(change.settings);
        after.updated_at = now;
        if after.default_role_id != before.default_role_id {
            set_default_role(&mut tx, &after).await?;
        }
        store(&mut tx, &after).await?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    /// Soft-deletes the organization and its projects; their ids are never reused.
    pub async fn delete(self, actor: &Actor) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let organization = lock(&mut tx, actor.organization).await?;
        let now = self.core.clock.now();
        projects::delete_all_of(&mut tx, organization.id, now).await?;
        for table in ["memberships", "roles"] {
            let sql = format!("DELETE FROM {table} WHERE organization_id = $1");
            tx.run(sql, args![organization.id]).await?;
        }
        tx.run(
            "UPDATE organizations SET slug = id, updated_at = $2, deleted_at = $2 WHERE id = $1",
            args![organization.id, now],
        )
        .await?;
        tx.run(
            "UPDATE users SET current_organization_id = NULL, current_project_id = NULL \
             WHERE current_organization_id = $1",
            args![organization.id],
        )
        .await?;
        tx.log_deleted(actor, &organization, now).await?;
        tx.commit().await
    }

    /// The oldest organization; the CLI adds users to it.
    pub async fn first(self) -> Result<OrganizationId> {
        let sql = "SELECT id FROM organizations WHERE deleted_at IS NULL \
                   ORDER BY created_at, id LIMIT 1";
        self.core.db.one(sql, args![]).await?.get("id")
    }
}

/// Reads and locks an organization. Every change to its members or roles takes this lock first:
/// rules over several rows (the last owner, the default role) hold, and lock order prevents
/// deadlocks.
pub(crate) async fn lock(tx: &mut Tx, id: OrganizationId) -> Result<OrganizationRow> {
    let lock = tx.dialect().for_update_of("o");
    let sql = format!(
        "SELECT {COLUMNS} FROM organizations o WHERE o.id = $1 AND o.deleted_at IS NULL{lock}"
    );
    OrganizationRow::read(&tx.one(sql, args![id]).await?)
}

/// Renames the organization; its slug stays.
pub(crate) async fn rename(tx: &mut Tx, actor: &Actor, name: String, now: Timestamp) -> Result<()> {
    let before = lock(tx, actor.organization).await?;
    let after = OrganizationRow { name, updated_at: now, ..before.clone() };
    store(tx, &after).await?;
    tx.log_updated(actor, &before, &after, now).await
}

/// Copies one setting into a column of its own, which every request with a key reads.
async fn store(tx: &mut Tx, organization: &OrganizationRow) -> Result<()> {
    tx.run(
        "UPDATE organizations SET name = $2, members_can_use_personal_api_keys = $3, \
         settings = $4, updated_at = $5 WHERE id = $1",
        args![
            organization.id,
            organization.name.as_str(),
            organization.settings.members_can_use_personal_api_keys(),
            organization.settings.to_stored(),
            organization.updated_at,
        ],
    )
    .await?;
    Ok(())
}

fn no_such_role() -> Error {
    Error::refused(Some("default_role_id"), "Role does not exist.")
}

async fn set_default_role(tx: &mut Tx, organization: &OrganizationRow) -> Result<()> {
    tx.run(
        "UPDATE roles SET is_default = FALSE WHERE organization_id = $1 AND is_default",
        args![organization.id],
    )
    .await?;
    let Some(role) = organization.default_role_id else { return Ok(()) };
    let updated = tx
        .run(
            "UPDATE roles SET is_default = TRUE WHERE organization_id = $1 AND id = $2",
            args![organization.id, role],
        )
        .await?;
    if updated == 0 { Err(no_such_role()) } else { Ok(()) }
}

pub(crate) async fn insert(tx: &mut Tx, name: &str, now: Timestamp) -> Result<OrganizationRow> {
    let id = OrganizationId(Uuid::now_v7());
    let base = slug(name);
    let numbered = (2..=SLUG_TRIES_MAX).map(|number| format!("{base}-{number}"));
    let candidates = std::iter::once(base.clone())
        .chain(numbered)
        .chain(std::iter::once(format!("{base}-{}", id.0.simple())));
    for slug in candidates {
        let inserted = tx
            .run(
                "INSERT INTO organizations (id, name, slug, members_can_use_personal_api_keys, \
                 settings, created_at, updated_at) VALUES ($1, $2, $3, TRUE, '{}', $4, $4) \
                 ON CONFLICT (slug) DO NOTHING",
                args![id, name, slug.as_str(), now],
            )
            .await?;
        if inserted == 1 {
            return Ok(OrganizationRow {
                id,
                name: name.to_owned(),
                slug,
                default_role_id: None,
                settings: OrganizationSettings::default(),
                created_at: now,
                updated_at: now,
            });
        }
    }
    Err(Error::Duplicate { rule: "organizations.slug".into() })
}

/// Lower-case letters and digits; each run of other characters becomes one dash.
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
