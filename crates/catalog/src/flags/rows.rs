//! Feature flags as rows.

use model::flag::{
    BucketingIdentifier, EvaluationRuntime, FeatureFlag, FlagDefinition, FlagStatus, filters,
    is_fully_rolled_out,
};
use model::{FlagId, ProjectId, Timestamp, UserId};
use serde_json::{Map, Value as Json};

use super::{OBJECT, columns_of_users};
use crate::db::bulk::Rows;
use crate::db::{Row, Tx, Value, args, author};
use crate::objects::tags;
use crate::{Error, Result};

const COLUMNS: &str = "f.id, f.project_id, f.key, f.name, f.filters, f.active, f.archived, \
     f.deleted, f.version, f.ensure_experience_continuity, f.evaluation_runtime, \
     f.bucketing_identifier, f.evaluation_contexts, f.rollback_conditions, f.performed_rollback, \
     f.is_remote_configuration, f.has_encrypted_payloads, f.payloads_sealed, \
     f.has_enriched_analytics, f.usage_dashboard_id, f.analytics_dashboards, f.last_called_at, \
     f.created_at, f.updated_at";
pub(super) const FROM: &str = "feature_flags f LEFT JOIN users u ON u.id = f.created_by \
     LEFT JOIN users m ON m.id = f.last_modified_by";
pub(super) const DEFINITION: &str = "f.id, f.project_id, f.key, f.name, f.filters, f.active, \
     f.deleted, f.version, f.ensure_experience_continuity, f.evaluation_runtime, \
     f.bucketing_identifier, f.evaluation_contexts, f.has_encrypted_payloads";

pub(super) fn columns() -> String {
    format!("{COLUMNS}, {}", columns_of_users())
}

pub(super) fn select() -> String {
    format!("{} FROM {FROM}", columns())
}

fn runtime(row: &Row) -> Result<Option<EvaluationRuntime>> {
    let word: Option<String> = row.get("evaluation_runtime")?;
    word.map(|word| {
        EvaluationRuntime::parse(&word).ok_or_else(|| Error::corrupt("evaluation_runtime", word))
    })
    .transpose()
}

fn bucketing(row: &Row) -> Result<Option<BucketingIdentifier>> {
    let word: Option<String> = row.get("bucketing_identifier")?;
    word.map(|word| {
        BucketingIdentifier::parse(&word)
            .ok_or_else(|| Error::corrupt("bucketing_identifier", word))
    })
    .transpose()
}

pub(super) fn read(row: &Row, tags: Vec<String>, now: Timestamp) -> Result<FeatureFlag> {
    let rollback: Option<String> = row.get("rollback_conditions")?;
    let mut flag = FeatureFlag {
        id: row.get("id")?,
        name: row.get("name")?,
        key: row.get("key")?,
        filters: row.json("filters")?,
        deleted: row.get("deleted")?,
        active: row.get("active")?,
        archived: row.get("archived")?,
        created_by: author::read(row)?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        version: row.get("version")?,
        last_modified_by: author::read_as(row, "m")?,
        ensure_experience_continuity: row.get("ensure_experience_continuity")?,
        rollback_conditions: rollback
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|why| Error::corrupt("rollback_conditions", why))?,
        performed_rollback: row.get("performed_rollback")?,
        tags,
        evaluation_contexts: row.json("evaluation_contexts")?,
        usage_dashboard: row.get("usage_dashboard_id")?,
        analytics_dashboards: row.json("analytics_dashboards")?,
        has_enriched_analytics: row.get("has_enriched_analytics")?,
        is_remote_configuration: row.get("is_remote_configuration")?,
        has_encrypted_payloads: row.get("has_encrypted_payloads")?,
        evaluation_runtime: runtime(row)?,
        bucketing_identifier: bucketing(row)?,
        last_called_at: row.get("last_called_at")?,
        sealed_payloads: row.get("payloads_sealed")?,
        ..default_flag(row.get("project_id")?, now)
    };
    flag.derive(now);
    Ok(flag)
}

pub(super) fn definition(row: &Row) -> Result<FlagDefinition> {
    Ok(FlagDefinition {
        id: row.get("id")?,
        team_id: row.get("project_id")?,
        name: row.get("name")?,
        key: row.get("key")?,
        filters: row.json("filters")?,
        deleted: row.get("deleted")?,
        active: row.get("active")?,
        ensure_experience_continuity: row.get("ensure_experience_continuity")?,
        version: row.get("version")?,
        evaluation_runtime: runtime(row)?,
        bucketing_identifier: bucketing(row)?,
        evaluation_contexts: row.json("evaluation_contexts")?,
        has_experiment: false,
        has_encrypted_payloads: row.get("has_encrypted_payloads")?,
    })
}

/// A new flag with default values.
pub(super) fn default_flag(project: ProjectId, now: Timestamp) -> FeatureFlag {
    FeatureFlag {
        id: FlagId(0),
        name: String::new(),
        key: String::new(),
        filters: filters::empty(),
        deleted: false,
        active: true,
        archived: false,
        created_by: None,
        created_at: now,
        updated_at: now,
        version: 1,
        last_modified_by: None,
        is_simple_flag: false,
        rollout_percentage: None,
        ensure_experience_continuity: false,
        experiment_set: Vec::new(),
        experiment_set_metadata: Vec::new(),
        surveys: Map::new(),
        features: Map::new(),
        rollback_conditions: None,
        performed_rollback: false,
        tags: Vec::new(),
        evaluation_contexts: Vec::new(),
        usage_dashboard: None,
        analytics_dashboards: Vec::new(),
        has_enriched_analytics: false,
        is_remote_configuration: false,
        has_encrypted_payloads: false,
        status: FlagStatus::Active,
        evaluation_runtime: Some(EvaluationRuntime::All),
        bucketing_identifier: Some(BucketingIdentifier::DistinctId),
        last_called_at: None,
        is_used_in_replay_settings: false,
        is_eligible_for_experiment: false,
        team_id: project,
        sealed_payloads: None,
    }
}

/// The columns that an update writes, in the order of [`updated_values`].
const UPDATED_COLUMNS: [&str; 23] = [
    "key",
    "name",
    "filters",
    "active",
    "archived",
    "deleted",
    "version",
    "ensure_experience_continuity",
    "evaluation_runtime",
    "bucketing_identifier",
    "evaluation_contexts",
    "rollback_conditions",
    "performed_rollback",
    "is_remote_configuration",
    "has_encrypted_payloads",
    "payloads_sealed",
    "has_enriched_analytics",
    "analytics_dashboards",
    "variant_count",
    "fully_rolled_out",
    "last_modified_by",
    "created_at",
    "updated_at",
];

fn updated_values(flag: &FeatureFlag, by: Option<UserId>) -> Vec<Value> {
    args![
        flag.key.as_str(),
        flag.name.as_str(),
        Json::Object(flag.filters.clone()),
        flag.active,
        flag.archived,
        flag.deleted,
        flag.version,
        flag.ensure_experience_continuity,
        flag.evaluation_runtime.map(EvaluationRuntime::as_str),
        flag.bucketing_identifier.map(BucketingIdentifier::as_str),
        Json::from(flag.evaluation_contexts.clone()),
        flag.rollback_conditions.clone(),
        flag.performed_rollback,
        flag.is_remote_configuration,
        flag.has_encrypted_payloads,
        flag.sealed_payloads.clone(),
        flag.has_enriched_analytics,
        Json::from(flag.analytics_dashboards.clone()),
        filters::variant_shares(&flag.filters).len() as i64,
        is_fully_rolled_out(&flag.filters),
        by,
        flag.created_at,
        flag.updated_at,
    ]
}

pub(super) async fn insert(tx: &mut Tx, flag: &FeatureFlag, by: Option<UserId>) -> Result<FlagId> {
    let mut values = args![flag.team_id, by];
    values.extend(updated_values(flag, by));
    let marks = crate::db::dialect::placeholders(1, values.len());
    let sql = format!(
        "INSERT INTO feature_flags (project_id, created_by, {}) VALUES {marks} RETURNING id",
        UPDATED_COLUMNS.join(", "),
    );
    tx.one(sql, values).await?.get("id")
}

pub(super) async fn update(tx: &mut Tx, flag: &FeatureFlag, by: Option<UserId>) -> Result<()> {
    let mut values = args![flag.id];
    values.extend(updated_values(flag, by));
    let sets: Vec<String> =
        UPDATED_COLUMNS.iter().zip(2..).map(|(column, at)| format!("{column} = ${at}")).collect();
    let sql = format!("UPDATE feature_flags SET {} WHERE id = $1", sets.join(", "));
    tx.run(sql, values).await.map(drop)
}

/// Saves tags and references to flags and cohorts, which have their own tables.
pub(super) async fn save_parts(
    tx: &mut Tx,
    flag: &FeatureFlag,
    before: Option<&FeatureFlag>,
) -> Result<()> {
    if before.is_none_or(|before| before.tags != flag.tags) {
        tags::replace(tx, flag.team_id, OBJECT, flag.id.to_string(), &flag.tags).await?;
    }
    if before.is_some_and(|before| before.filters == flag.filters) {
        return Ok(());
    }
    let flags = filters::dependencies(&flag.filters).into_iter().map(Value::from);
    replace_references(tx, flag.id, "feature_flag_dependencies (flag_id, depends_on)", flags)
        .await?;
    let cohorts = filters::cohorts(&flag.filters).into_iter().map(Value::from);
    replace_references(tx, flag.id, "feature_flag_cohorts (flag_id, cohort_id)", cohorts).await
}

async fn replace_references(
    tx: &mut Tx,
    flag: FlagId,
    into: &str,
    names: impl Iterator<Item = Value>,
) -> Result<()> {
    let (table, _) = into.split_once(' ').unwrap_or((into, ""));
    tx.run(format!("DELETE FROM {table} WHERE flag_id = $1"), args![flag]).await?;
    let mut rows = Rows::new(2);
    names.for_each(|name| rows.push(vec![flag.into(), name]));
    tx.write(&format!("INSERT INTO {into}"), rows, "").await
}
