//! Feature flags: definitions, validation of their filters, edit conflicts, usage dashboards.

mod conflict;
mod feature;
pub mod filters;
pub mod usage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CohortId, FlagId, ProjectId};
pub use conflict::{Conflict, Original};
pub use feature::{FeatureFlag, FlagStatus, STALE_SECONDS, is_fully_rolled_out};

/// What evaluation needs of a flag; also what SDKs get for local evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlagDefinition {
    pub id: FlagId,
    pub team_id: ProjectId,
    pub name: String,
    pub key: String,
    #[schemars(with = "crate::json_shapes::FlagFilters")]
    pub filters: Map<String, Value>,
    pub deleted: bool,
    pub active: bool,
    pub ensure_experience_continuity: bool,
    pub version: i64,
    pub evaluation_runtime: Option<EvaluationRuntime>,
    pub bucketing_identifier: Option<BucketingIdentifier>,
    pub evaluation_contexts: Vec<String>,
    pub has_experiment: bool,
    /// Remote configuration only: such flags are never evaluated.
    #[serde(skip)]
    pub has_encrypted_payloads: bool,
}

/// The person property that records enrollment in a flag's early access feature.
pub fn enrollment_property(key: &str) -> String {
    format!("$feature_enrollment/{key}")
}

/// Where a flag may be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvaluationRuntime {
    Server,
    Client,
    All,
}

impl EvaluationRuntime {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::All => "all",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Server, Self::Client, Self::All].into_iter().find(|known| known.as_str() == word)
    }
}

/// Which id determines a person's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BucketingIdentifier {
    DistinctId,
    DeviceId,
}

impl BucketingIdentifier {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DistinctId => "distinct_id",
            Self::DeviceId => "device_id",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::DistinctId, Self::DeviceId].into_iter().find(|known| known.as_str() == word)
    }
}

/// A cohort as flag evaluation needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct CohortDefinition {
    pub id: CohortId,
    pub kind: CohortKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CohortKind {
    /// A list of persons.
    Static,
    /// A tree of conditions, as [`crate::property::Node::parse`] reads it.
    Dynamic(Value),
}
