//! Validation and normalization of a flag's `filters` before they are stored.
//!
//! References to cohorts and flags are only parsed here; the catalog checks that they exist. Unknown
//! keys are kept.

mod conditions;
mod variants;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{CohortId, FlagId};

pub type Fields = Map<String, Value>;

/// Upstream's bound on the filters of one flag.
pub const FILTERS_BYTES_MAX: usize = 512 << 10;
/// The API returns this instead of encrypted payloads.
pub const REDACTED_PAYLOAD: &str = "********* (encrypted)";
/// Legacy keys without meaning, removed on write.
const DROPPED: [&str; 2] = ["super_groups", "holdout_groups"];

/// Display names that responses add next to cohort ids and group keys. Clients send them back; they
/// are stripped before storing.
const COHORT_NAME: &str = "cohort_name";
const GROUP_NAMES: &str = "group_key_names";
/// The pseudo-property that matches a group's key.
const GROUP_KEY: &str = "$group_key";

/// Why filters are rejected: error code and detail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct InvalidFilters {
    pub code: &'static str,
    pub detail: String,
}

impl InvalidFilters {
    pub fn new(detail: impl Into<String>) -> Self {
        Self { code: "invalid_input", detail: detail.into() }
    }

    pub fn unknown_cohort() -> Self {
        let detail = "There is no such cohort in this project.".into();
        Self { code: "cohort_does_not_exist", detail }
    }

    pub fn behavioral_cohort() -> Self {
        let detail = "Cohorts with behavioral conditions can't be used in feature flags.".into();
        Self { code: "behavioral_cohort_found", detail }
    }
}

type Result<T> = std::result::Result<T, InvalidFilters>;

/// What validation needs to know about the flag.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    /// The stored filters; `None` for a new flag.
    pub stored: Option<&'a Fields>,
    pub remote_configuration: bool,
}

/// Default filters of a new flag.
pub fn empty() -> Fields {
    Fields::from_iter([("groups".to_owned(), json!([]))])
}

/// Shallow merge: each sent key replaces the stored one.
pub fn merged(stored: &Fields, sent: &Fields) -> Fields {
    let mut merged = stored.clone();
    merged.extend(sent.iter().map(|(key, value)| (key.clone(), value.clone())));
    merged
}

/// Validates merged filters and normalizes them for storage. Idempotent.
pub fn prepare(mut filters: Fields, purpose: Purpose<'_>) -> Result<Fields> {
    if filters.contains_key("version") {
        let detail = "The key 'version' is reserved in filters.".into();
        return Err(InvalidFilters { code: "reserved_config_version", detail });
    }
    DROPPED.iter().for_each(|key| drop(filters.remove(*key)));
    strip_names(&mut filters);
    let known = purpose.stored.map(conditions::patterns).unwrap_or_default();
    conditions::prepare(&mut filters, &known)?;
    if purpose.remote_configuration {
        conditions::serve_everyone(&mut filters);
    }
    if purpose.stored.is_none() && groups(&filters).is_empty() {
        return Err(InvalidFilters::new("A flag needs at least one condition group."));
    }
    let variants = variants::check(&filters)?;
    conditions::check_overrides(&filters, &variants)?;
    variants::prepare_payloads(&mut filters, &variants)?;
    check_options(&filters)?;
    let bytes = Value::Object(filters.clone()).to_string().len();
    if bytes > FILTERS_BYTES_MAX {
        let detail = format!("Filters take {bytes} bytes; at most {FILTERS_BYTES_MAX} are kept.");
        return Err(InvalidFilters::new(detail));
    }
    Ok(filters)
}

/// The condition groups; empty if there are none.
pub fn groups(filters: &Fields) -> &[Value] {
    filters.get("groups").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The property filters of all condition groups.
pub fn properties(filters: &Fields) -> impl Iterator<Item = &Fields> {
    groups(filters)
        .iter()
        .filter_map(|group| group.get("properties")?.as_array())
        .flatten()
        .filter_map(Value::as_object)
}

/// The property filters of all condition groups, mutable.
pub fn properties_mut(filters: &mut Fields) -> impl Iterator<Item = &mut Fields> {
    let groups = filters.get_mut("groups").and_then(Value::as_array_mut);
    groups
        .into_iter()
        .flatten()
        .filter_map(|group| group.get_mut("properties")?.as_array_mut())
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// The cohorts that the conditions reference, sorted.
pub fn cohorts(filters: &Fields) -> Vec<CohortId> {
    let named = properties(filters).filter(|property| is_of(property, "cohort"));
    let mut ids: Vec<CohortId> =
        named.filter_map(|property| CohortId::from_json(property.get("value")?)).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The groups that the conditions reference by key, with the index of their type; sorted.
pub fn group_keys(filters: &Fields) -> Vec<(u8, String)> {
    let mut keys: Vec<(u8, String)> = properties(filters)
        .filter_map(|property| Some((group_index(property)?, named_groups(property))))
        .flat_map(|(index, keys)| keys.into_iter().map(move |key| (index, key.to_owned())))
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The group type index of a condition on group keys.
fn group_index(property: &Fields) -> Option<u8> {
    if !is_of(property, "group") || property.get("key").and_then(Value::as_str) != Some(GROUP_KEY) {
        return None;
    }
    u8::try_from(property.get("group_type_index")?.as_u64()?).ok()
}

fn named_groups(property: &Fields) -> Vec<&str> {
    match property.get("value") {
        Some(Value::String(key)) => vec![key],
        Some(Value::Array(keys)) => keys.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Display names of cohorts and groups that conditions reference.
#[derive(Debug, Default)]
pub struct Names {
    pub cohorts: HashMap<CohortId, String>,
    /// By the index of their type and their key.
    pub groups: HashMap<(u8, String), String>,
}

/// Adds display names for a response.
pub fn add_names(filters: &mut Fields, names: &Names) {
    for property in properties_mut(filters) {
        if is_of(property, "cohort") {
            let id = property.get("value").and_then(CohortId::from_json);
            let name = id.and_then(|id| names.cohorts.get(&id));
            property.insert(COHORT_NAME.into(), json!(name));
        } else if let Some(index) = group_index(property) {
            let name = |key: &str| {
                Some((key.to_owned(), json!(names.groups.get(&(index, key.to_owned()))?)))
            };
            let named: Fields = named_groups(property).into_iter().filter_map(name).collect();
            property.insert(GROUP_NAMES.into(), Value::Object(named));
        }
    }
}

/// Removes the display names that [`add_names`] added.
pub fn strip_names(filters: &mut Fields) {
    for property in properties_mut(filters) {
        property.remove(COHORT_NAME);
        property.remove(GROUP_NAMES);
    }
}

/// The flags that the conditions depend on, sorted.
pub fn dependencies(filters: &Fields) -> Vec<FlagId> {
    let named = properties(filters).filter(|property| is_of(property, "flag"));
    let mut ids: Vec<FlagId> = named.filter_map(|property| flag_id(property.get("key")?)).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The flag id in a condition: a number, or its digits as a string.
pub fn flag_id(key: &Value) -> Option<FlagId> {
    match key {
        Value::String(digits) => digits.parse().ok(),
        number => number.as_i64(),
    }
    .map(FlagId)
}

pub fn is_of(property: &Fields, kind: &str) -> bool {
    property.get("type").and_then(Value::as_str) == Some(kind)
}

/// The variants with their shares.
pub fn variant_shares(filters: &Fields) -> Vec<(&str, f64)> {
    let variants = filters.get("multivariate").and_then(|all| all.get("variants")?.as_array());
    variants
        .into_iter()
        .flatten()
        .filter_map(|variant| {
            let share = variant.get("rollout_percentage").and_then(Value::as_f64).unwrap_or(0.0);
            Some((variant.get("key")?.as_str()?, share))
        })
        .collect()
}

fn check_options(filters: &Fields) -> Result<()> {
    match filters.get("holdout") {
        None | Some(Value::Null) => {}
        Some(Value::Object(holdout)) => {
            if !holdout.get("id").is_some_and(Value::is_i64) {
                return Err(InvalidFilters::new("holdout needs an integer id."));
            }
            percentage("holdout exclusion_percentage", holdout.get("exclusion_percentage"))?;
        }
        Some(_) => return Err(InvalidFilters::new("holdout is an object or null.")),
    }
    for key in ["early_exit", "feature_enrollment"] {
        if !matches!(filters.get(key), None | Some(Value::Null | Value::Bool(_))) {
            return Err(InvalidFilters::new(format!("{key} is true, false or null.")));
        }
    }
    Ok(())
}

/// A finite number from 0 to 100; booleans and strings are rejected.
fn percentage(what: &str, value: Option<&Value>) -> Result<f64> {
    value
        .and_then(Value::as_f64)
        .filter(|share| (0.0..=100.0).contains(share))
        .ok_or_else(|| InvalidFilters::new(format!("{what} must be a number from 0 to 100.")))
}

#[cfg(test)]
mod tests;
