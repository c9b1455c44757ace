//! Persons, groups and cohorts.

pub mod behavioral_cohorts;
pub mod cohort_usage;
pub mod cohorts;
pub mod groups;
pub mod profiles;
pub mod static_cohorts;
