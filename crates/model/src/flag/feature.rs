//! A feature flag as the management API returns it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::filters::{self, Fields};
use super::{BucketingIdentifier, EvaluationRuntime, FlagDefinition};
use crate::{FlagId, ProjectId, Timestamp, User};

/// A flag is stale if it was last called this long ago; if never called, when it is this old and
/// fully rolled out.
pub const STALE_SECONDS: i64 = 30 * 24 * 60 * 60;
/// Number of variants that makes a flag eligible for an experiment.
const EXPERIMENT_VARIANTS: std::ops::RangeInclusive<usize> = 2..=20;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FeatureFlag {
    pub id: FlagId,
    pub name: String,
    pub key: String,
    /// Encrypted payloads are redacted.
    #[schemars(with = "crate::json_shapes::FlagFilters")]
    pub filters: Fields,
    pub deleted: bool,
    pub active: bool,
    pub archived: bool,
    pub created_by: Option<User>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: i64,
    pub last_modified_by: Option<User>,
    pub is_simple_flag: bool,
    #[schemars(with = "Option<f64>")]
    pub rollout_percentage: Option<Value>,
    pub ensure_experience_continuity: bool,
    pub experiment_set: Vec<i64>,
    #[schemars(with = "crate::json_shapes::EmptyList")]
    pub experiment_set_metadata: Vec<Value>,
    #[schemars(with = "crate::json_shapes::EmptyObject")]
    pub surveys: Map<String, Value>,
    #[schemars(with = "crate::json_shapes::EmptyObject")]
    pub features: Map<String, Value>,
    pub rollback_conditions: Option<Value>,
    pub performed_rollback: bool,
    pub tags: Vec<String>,
    pub evaluation_contexts: Vec<String>,
    pub usage_dashboard: Option<i64>,
    pub analytics_dashboards: Vec<i64>,
    pub has_enriched_analytics: bool,
    pub is_remote_configuration: bool,
    pub has_encrypted_payloads: bool,
    pub status: FlagStatus,
    pub evaluation_runtime: Option<EvaluationRuntime>,
    pub bucketing_identifier: Option<BucketingIdentifier>,
    pub last_called_at: Option<Timestamp>,
    pub is_used_in_replay_settings: bool,
    pub is_eligible_for_experiment: bool,
    #[serde(skip)]
    pub team_id: ProjectId,
    /// Ciphertext of the payloads.
    #[serde(skip)]
    pub sealed_payloads: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FlagStatus {
    Active,
    Stale,
    Archived,
    Deleted,
}

impl FeatureFlag {
    /// Recomputes the derived fields.
    pub fn derive(&mut self, now: Timestamp) {
        let groups = filters::groups(&self.filters);
        let of_persons =
            self.filters.get("aggregation_group_type_index").is_none_or(Value::is_null);
        let simple = match groups {
            [only] => of_persons && !has_properties(only),
            _ => false,
        };
        let share = groups.first().and_then(|only| only.get("rollout_percentage"));
        self.rollout_percentage = share.filter(|share| simple && !share.is_null()).cloned();
        self.is_simple_flag = simple;
        self.is_eligible_for_experiment =
            EXPERIMENT_VARIANTS.contains(&filters::variant_shares(&self.filters).len());
        self.status = self.status_at(now);
    }

    /// The part that evaluation needs.
    pub fn definition(&self) -> FlagDefinition {
        FlagDefinition {
            id: self.id,
            team_id: self.team_id,
            name: self.name.clone(),
            key: self.key.clone(),
            filters: self.filters.clone(),
            deleted: self.deleted,
            active: self.active,
            ensure_experience_continuity: self.ensure_experience_continuity,
            version: self.version,
            evaluation_runtime: self.evaluation_runtime,
            bucketing_identifier: self.bucketing_identifier,
            evaluation_contexts: self.evaluation_contexts.clone(),
            has_experiment: !self.experiment_set.is_empty(),
            has_encrypted_payloads: self.has_encrypted_payloads,
        }
    }

    fn status_at(&self, now: Timestamp) -> FlagStatus {
        let is_old = |at: Timestamp| now.seconds_since(at) > STALE_SECONDS;
        let is_stale = || match self.last_called_at {
            Some(called) => is_old(called),
            None => is_old(self.created_at) && is_fully_rolled_out(&self.filters),
        };
        match self {
            Self { deleted: true, .. } => FlagStatus::Deleted,
            Self { archived: true, .. } => FlagStatus::Archived,
            Self { active: true, .. } if is_stale() => FlagStatus::Stale,
            _ => FlagStatus::Active,
        }
    }
}

fn has_properties(group: &Value) -> bool {
    group.get("properties").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

/// Whether all persons get the same result.
pub fn is_fully_rolled_out(fields: &Fields) -> bool {
    let groups = filters::groups(fields);
    let variants = filters::variant_shares(fields);
    let full = |group: &&Value| {
        group.get("rollout_percentage").and_then(Value::as_f64) == Some(100.0)
            && !has_properties(group)
    };
    let names_variant = |group: &Value| {
        group.get("variant").and_then(Value::as_str).is_some_and(|key| !key.is_empty())
    };
    if variants.is_empty() {
        return groups.is_empty() || groups.iter().any(|group| full(&group));
    }
    let one_for_all = variants.iter().any(|(_, share)| *share == 100.0);
    groups.iter().filter(full).any(|group| one_for_all || names_variant(group))
}
