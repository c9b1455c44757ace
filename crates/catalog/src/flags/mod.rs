//! Feature flags: reading, creating and changing them, with the rules between flags.

pub(crate) mod hash_keys;
mod lists;
mod payloads;
mod role_access;
mod rows;
mod rules;
mod scan;
mod usage;

use model::flag::filters::{self, Fields, Purpose};
use model::flag::{BucketingIdentifier, EvaluationRuntime, FeatureFlag, FlagDefinition, Original};
use model::{FlagId, ProjectId, Timestamp, Visibility};
use serde_json::{Map, Value};

use crate::activity::{Actor, Logged};
use crate::db::{Tx, args, author, handle};
use crate::objects::edit::set;
use crate::objects::tags::{self, TAGS_MAX};
use crate::{Error, Result, projects};

pub use hash_keys::{FlagPerson, HashKey};
pub use lists::{FlagFilter, FlagOrder, Staleness};
pub use role_access::RoleGrant;
pub use rules::FLAGS_MAX;

handle! {
    /// Feature flags.
    Flags
}

/// The `object` column of these objects' taggings.
const OBJECT: &str = "feature_flag";

/// A partial update of a flag; absent fields stay unchanged, or get their defaults in a new flag.
#[derive(Clone, Debug, Default)]
pub struct FlagChange {
    pub key: Option<String>,
    pub name: Option<String>,
    pub filters: Option<Fields>,
    pub active: Option<bool>,
    pub archived: Option<bool>,
    pub deleted: Option<bool>,
    pub created_at: Option<Timestamp>,
    pub ensure_experience_continuity: Option<bool>,
    pub rollback_conditions: Option<Option<Value>>,
    pub performed_rollback: Option<bool>,
    pub tags: Option<Vec<String>>,
    /// Applied to the stored tags, so that concurrent edits all take effect.
    pub tag_edit: Option<TagEdit>,
    pub evaluation_contexts: Option<Vec<String>>,
    pub analytics_dashboards: Option<Vec<i64>>,
    pub has_enriched_analytics: Option<bool>,
    pub is_remote_configuration: Option<bool>,
    pub has_encrypted_payloads: Option<bool>,
    pub evaluation_runtime: Option<Option<EvaluationRuntime>>,
    pub bucketing_identifier: Option<Option<BucketingIdentifier>>,
}

/// Adds or removes normalized tags.
#[derive(Clone, Debug)]
pub enum TagEdit {
    Add(Vec<String>),
    Remove(Vec<String>),
}

impl TagEdit {
    fn apply(self, tags: &mut Vec<String>) {
        match self {
            Self::Add(added) => {
                tags.extend(added);
                tags.sort();
                tags.dedup();
            }
            Self::Remove(removed) => tags.retain(|tag| !removed.contains(tag)),
        }
    }
}

/// The version that the author of a change had loaded, for optimistic concurrency control.
#[derive(Clone, Debug)]
pub struct ExpectedVersion {
    pub version: i64,
    pub original: Original,
    /// The fields of the request.
    pub sent: Map<String, Value>,
    /// The fields that the author changed.
    pub changed: FlagChange,
}

/// The result of an update.
pub struct UpdatedFlag {
    pub flag: FeatureFlag,
    /// The former key; enrollment properties of persons must be renamed from it.
    pub enrolled_under: Option<String>,
}

impl Logged for FeatureFlag {
    const SCOPE: &'static str = "FeatureFlag";
    const UNLOGGED: &'static [&'static str] = &[
        "updated_at",
        "last_modified_by",
        "last_called_at",
        "status",
        "is_simple_flag",
        "rollout_percentage",
        "is_eligible_for_experiment",
    ];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.key.clone())
    }
}

impl FlagChange {
    /// Applies everything but the filters, which need other flags and cohorts.
    fn apply(&self, flag: &mut FeatureFlag) {
        let change = self.clone();
        set(&mut flag.key, change.key);
        set(&mut flag.name, change.name);
        set(&mut flag.active, change.active);
        set(&mut flag.archived, change.archived);
        set(&mut flag.deleted, change.deleted);
        set(&mut flag.created_at, change.created_at);
        set(&mut flag.ensure_experience_continuity, change.ensure_experience_continuity);
        set(&mut flag.rollback_conditions, change.rollback_conditions);
        set(&mut flag.performed_rollback, change.performed_rollback);
        set(&mut flag.tags, change.tags);
        if let Some(edit) = change.tag_edit {
            edit.apply(&mut flag.tags);
        }
        set(&mut flag.evaluation_contexts, change.evaluation_contexts);
        set(&mut flag.has_enriched_analytics, change.has_enriched_analytics);
        set(&mut flag.is_remote_configuration, change.is_remote_configuration);
        set(&mut flag.has_encrypted_payloads, change.has_encrypted_payloads);
        set(&mut flag.evaluation_runtime, change.evaluation_runtime);
        set(&mut flag.bucketing_identifier, change.bucketing_identifier);
        // Dashboards are added, never removed.
        for dashboard in change.analytics_dashboards.into_iter().flatten() {
            if !flag.analytics_dashboards.contains(&dashboard) {
                flag.analytics_dashboards.push(dashboard);
            }
        }
    }
}

impl Flags<'_> {
    /// A flag, deleted or not.
    pub async fn get(self, project: ProjectId, id: FlagId) -> Result<FeatureFlag> {
        let flags = self.flags_where("f.id = $2", args![project, id]).await?;
        flags.into_iter().next().ok_or(Error::NotFound)
    }

    /// A live flag.
    pub async fn by_key(self, project: ProjectId, key: &str) -> Result<FeatureFlag> {
        let flags = self.flags_where("f.key = $2 AND NOT f.deleted", args![project, key]).await?;
        flags.into_iter().next().ok_or(Error::NotFound)
    }

    /// The definitions of all live flags, for evaluation, ordered by key.
    pub async fn definitions(self, project: ProjectId) -> Result<Vec<FlagDefinition>> {
        let sql = format!(
            "SELECT {} FROM feature_flags f WHERE f.project_id = $1 AND NOT f.deleted \
             ORDER BY f.key",
            rows::DEFINITION,
        );
        self.core.db.all(sql, args![project]).await?.iter().map(rows::definition).collect()
    }

    pub async fn create(self, actor: &Actor, new: FlagChange) -> Result<FeatureFlag> {
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(actor.project.ok_or(Error::NotFound)?);
        let flag = self.create_flag(&mut tx, actor, new).await?;
        tx.commit().await?;
        Ok(flag)
    }

    /// The flag that [`Flags::create`] would produce, without saving it.
    pub async fn preview_new(self, actor: &Actor, new: FlagChange) -> Result<FeatureFlag> {
        let mut tx = self.core.db.begin().await?;
        self.create_flag(&mut tx, actor, new).await
    }

    async fn create_flag(self, tx: &mut Tx, actor: &Actor, new: FlagChange) -> Result<FeatureFlag> {
        let project = actor.project.ok_or(Error::NotFound)?;
        projects::lock(tx, project).await?;
        let now = self.core.clock.now();
        rules::check_flag_limit(tx, project).await?;
        let mut flag = rows::default_flag(project, now);
        new.apply(&mut flag);
        if new.filters.is_some() || flag.is_remote_configuration {
            let sent = new.filters.clone().unwrap_or_default();
            flag.filters = self.prepare_filters(tx, None, &flag, &sent).await?;
        }
        self.hide_payloads(&mut flag)?;
        rules::check_dashboards(tx, None, &flag).await?;
        rules::check(tx, None, &mut flag, &Visibility::Everything).await?;
        let id = rows::insert(tx, &flag, actor.user).await.map_err(taken)?;
        flag.id = id;
        rows::save_parts(tx, &flag, None).await?;
        let flag = find(tx, project, id, now).await?;
        tx.log_created(actor, &flag, now).await?;
        Ok(flag)
    }

    /// Changes a flag. With an expected version, a conflicting change to the same field is refused;
    /// otherwise only the fields that the author changed are updated_values.
    pub async fn update(
        self,
        actor: &Actor,
        id: FlagId,
        change: &FlagChange,
        expected: Option<&ExpectedVersion>,
        visibility: &Visibility,
    ) -> Result<UpdatedFlag> {
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(actor.project.ok_or(Error::NotFound)?);
        let (before, flag) =
            self.change_flag(&mut tx, actor, id, (change, expected), visibility).await?;
        tx.commit().await?;
        // A key with a colon was freed for another flag, which owns the properties now.
        let moves = before.key != flag.key
            && !before.key.contains(':')
            && flag.filters.get("feature_enrollment") == Some(&Value::Bool(true));
        Ok(UpdatedFlag { flag, enrolled_under: moves.then_some(before.key) })
    }

    /// The flag that [`Flags::update`] would produce, without saving it.
    pub async fn preview(
        self,
        actor: &Actor,
        id: FlagId,
        change: &FlagChange,
        visibility: &Visibility,
    ) -> Result<FeatureFlag> {
        let mut tx = self.core.db.begin().await?;
        Ok(self.change_flag(&mut tx, actor, id, (change, None), visibility).await?.1)
    }

    /// Changes a flag, and returns it before and after.
    async fn change_flag(
        self,
        tx: &mut Tx,
        actor: &Actor,
        id: FlagId,
        (change, expected): (&FlagChange, Option<&ExpectedVersion>),
        visibility: &Visibility,
    ) -> Result<(FeatureFlag, FeatureFlag)> {
        let project = actor.project.ok_or(Error::NotFound)?;
        projects::lock(tx, project).await?;
        let now = self.core.clock.now();
        let before = find(tx, project, id, now).await?;
        let change = match expected.filter(|expected| expected.version != before.version) {
            Some(expected) => {
                check_not_stale(expected, &before)?;
                &expected.changed
            }
            None => change,
        };
        let mut after = before.clone();
        change.apply(&mut after);
        if matches!(&change.tag_edit, Some(TagEdit::Add(_))) && after.tags.len() > TAGS_MAX {
            let detail = format!("Ensure this field has no more than {TAGS_MAX} elements.");
            return Err(Error::refused(Some("tags"), detail));
        }
        let opens = before.has_encrypted_payloads && !after.has_encrypted_payloads;
        if change.filters.is_some() || change.is_remote_configuration.is_some() || opens {
            let sent = change.filters.clone().unwrap_or_default();
            after.filters = self.prepare_filters(tx, Some(&before), &after, &sent).await?;
        }
        self.hide_payloads(&mut after)?;
        rules::check_dashboards(tx, Some(&before), &after).await?;
        rules::check(tx, Some(&before), &mut after, visibility).await?;
        after.version = before.version + 1;
        after.updated_at = now;
        rows::update(tx, &after, actor.user).await.map_err(taken)?;
        rows::save_parts(tx, &after, Some(&before)).await?;
        self.rename_usage_dashboard(tx, actor, &before, &after.key).await?;
        let after = find(tx, project, id, now).await?;
        tx.log_updated(actor, &before, &after, now).await?;
        Ok((before, after))
    }

    /// The merged, validated filters, with decrypted payloads.
    async fn prepare_filters(
        self,
        tx: &mut Tx,
        before: Option<&FeatureFlag>,
        flag: &FeatureFlag,
        sent: &Fields,
    ) -> Result<Fields> {
        let stored = before.map(|before| &before.filters);
        let mut merged = match stored {
            Some(stored) => filters::merged(stored, sent),
            None => sent.clone(),
        };
        if let Some(before) = before {
            self.show_payloads(before, &mut merged)?;
        }
        let purpose = Purpose { stored, remote_configuration: flag.is_remote_configuration };
        let prepared = filters::prepare(merged, purpose).map_err(Error::invalid_filters)?;
        if !sent.is_empty() {
            rules::check_references(tx, flag.team_id, before.map(|before| before.id), &prepared)
                .await?;
        }
        Ok(prepared)
    }
}

fn taken(error: Error) -> Error {
    match error {
        Error::Duplicate { .. } => Error::Taken {
            field: "key",
            detail: "There is already a feature flag with this key.".into(),
        },
        other => other,
    }
}

fn check_not_stale(expected: &ExpectedVersion, before: &FeatureFlag) -> Result<()> {
    let stored = match serde_json::to_value(before) {
        Ok(Value::Object(stored)) => stored,
        _ => return Err(Error::corrupt("feature flag", "not an object")),
    };
    match expected.original.conflict(&expected.sent, &stored) {
        None => Ok(()),
        Some(conflict) => Err(Error::Stale(format!(
            "The feature flag was changed by somebody else since you loaded it: {}.",
            conflict.field
        ))),
    }
}

/// Reads a flag within the transaction.
async fn find(tx: &mut Tx, project: ProjectId, id: FlagId, now: Timestamp) -> Result<FeatureFlag> {
    let sql = format!("SELECT {} WHERE f.project_id = $1 AND f.id = $2", rows::select());
    let row = tx.one(sql, args![project, id]).await?;
    let tags = tags::of_one(tx, project, OBJECT, id.to_string()).await?;
    rows::read(&row, tags, now)
}

pub(crate) fn columns_of_users() -> String {
    format!("{}, {}", author::COLUMNS, author::columns_as("m"))
}
