//! Evaluation results and their reasons.

use std::borrow::Cow;

use crate::flag::Flag;

/// One flag's evaluation result.
#[derive(Clone, Debug)]
pub struct FlagResult<'s> {
    pub flag: &'s Flag,
    pub enabled: bool,
    pub variant: Option<&'s str>,
    /// Serialized JSON.
    pub payload: Option<&'s str>,
    pub reason: Reason,
    /// Set when the flag could not be evaluated; the result is then off.
    pub failure: Option<Failure>,
}

/// The results of one request, sorted by flag key.
#[derive(Clone, Debug, Default)]
pub struct FlagResults<'s> {
    pub results: Vec<FlagResult<'s>>,
    pub errors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: ReasonCode,
    pub condition_index: Option<usize>,
    /// Conditions on groups were skipped, too.
    pub skipped_groups: bool,
}

impl Reason {
    pub(crate) const fn new(code: ReasonCode, condition_index: Option<usize>) -> Self {
        Self { code, condition_index, skipped_groups: false }
    }

    pub fn description(&self) -> Cow<'static, str> {
        match self.description_parts() {
            (text, Some(number)) => format!("{text} {number}").into(),
            (text, None) => text.into(),
        }
    }

    /// The description, and the number that is appended to it.
    pub(crate) const fn description_parts(&self) -> (&'static str, Option<usize>) {
        match (self.code, self.condition_index) {
            (ReasonCode::ConditionMatch, Some(index)) => (self.code.description(), Some(index + 1)),
            (ReasonCode::NoConditionMatch, _) if self.skipped_groups => {
                ("No matching condition set; conditions on groups were skipped", None)
            }
            (code, _) => (code.description(), None),
        }
    }
}

/// In ascending rank: of several failed conditions, the highest reason is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasonCode {
    NoGroupType,
    NoConditionMatch,
    OutOfRolloutBound,
    ConditionMatch,
    SuperConditionValue,
    HoldoutConditionValue,
    MissingDependency,
    FlagDisabled,
}

impl ReasonCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoGroupType => "no_group_type",
            Self::NoConditionMatch => "no_condition_match",
            Self::OutOfRolloutBound => "out_of_rollout_bound",
            Self::ConditionMatch => "condition_match",
            Self::SuperConditionValue => "super_condition_value",
            Self::HoldoutConditionValue => "holdout_condition_value",
            Self::MissingDependency => "missing_dependency",
            Self::FlagDisabled => "flag_disabled",
        }
    }

    pub const fn description(self) -> &'static str {
        match self {
            Self::NoGroupType => "No group type",
            Self::NoConditionMatch => "No matching condition set",
            Self::OutOfRolloutBound => "Out of rollout bound",
            Self::ConditionMatch => "Matched condition set",
            Self::SuperConditionValue => "Super condition value",
            Self::HoldoutConditionValue => "Holdout condition value",
            Self::MissingDependency => "Flag cannot be evaluated due to missing dependency",
            Self::FlagDisabled => "Feature flag is disabled",
        }
    }
}

/// Why a flag could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The catalog is unavailable, and evaluation needs stored properties, cohorts or hash keys.
    DatabaseError,
    CohortNotFound,
    /// The stored filters are malformed.
    InvalidFilters,
}

impl Failure {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DatabaseError => "database_error",
            Self::CohortNotFound => "cohort_not_found",
            Self::InvalidFilters => "invalid_filters",
        }
    }
}
