//! What comes out, and why.

use std::borrow::Cow;

use crate::flag::Flag;

/// One flag's answer.
#[derive(Clone, Debug)]
pub struct Answer<'s> {
    pub flag: &'s Flag,
    pub enabled: bool,
    pub variant: Option<&'s str>,
    /// JSON text.
    pub payload: Option<&'s str>,
    pub reason: Reason,
    /// Set when the flag could not be evaluated; the answer is then off.
    pub failure: Option<Failure>,
}

/// The answers of one request, in the order of the flags' keys.
#[derive(Clone, Debug, Default)]
pub struct Answers<'s> {
    pub answers: Vec<Answer<'s>>,
    pub errors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: ReasonCode,
    pub condition_index: Option<usize>,
    /// Conditions on groups were skipped beside those that failed.
    pub skipped_groups: bool,
}

impl Reason {
    pub(crate) const fn new(code: ReasonCode, condition_index: Option<usize>) -> Self {
        Self { code, condition_index, skipped_groups: false }
    }

    pub fn description(&self) -> Cow<'static, str> {
        match self.told() {
            (text, Some(number)) => format!("{text} {number}").into(),
            (text, None) => text.into(),
        }
    }

    /// The description, and the number that ends it.
    pub(crate) const fn told(&self) -> (&'static str, Option<usize>) {
        match (self.code, self.condition_index) {
            (ReasonCode::ConditionMatch, Some(index)) => (self.code.description(), Some(index + 1)),
            (ReasonCode::NoConditionMatch, _) if self.skipped_groups => {
                ("No matching condition set; conditions on groups were skipped", None)
            }
            (code, _) => (code.description(), None),
        }
    }
}

/// In rising rank: of several conditions that failed, the highest is told.
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
    /// Stored properties, cohorts or bucketing were needed and cannot be read now.
    DatabaseError,
    CohortNotFound,
    /// Stored filters that nobody can read.
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
