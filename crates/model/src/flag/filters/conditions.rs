//! Validation of condition groups and their property filters.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Fields, InvalidFilters, Result, flag_id, percentage, properties};
use crate::CohortId;
use crate::group::GROUP_TYPES_MAX;
use crate::property::{self, Operator, PatternQuota};

const AGGREGATION: &str = "aggregation_group_type_index";

/// Values of the stored conditions. Stored patterns are not validated again.
pub(super) fn patterns(stored: &Fields) -> HashSet<&str> {
    properties(stored).filter_map(|property| property.get("value")?.as_str()).collect()
}

pub(super) fn prepare(filters: &mut Fields, known: &HashSet<&str>) -> Result<()> {
    let mut quota = PatternQuota::default();
    let of_flag = aggregation(filters.get(AGGREGATION))?;
    let groups = match filters.entry("groups").or_insert_with(|| json!([])) {
        Value::Array(groups) => groups,
        missing @ Value::Null => {
            *missing = json!([]);
            return Ok(());
        }
        _ => return Err(InvalidFilters::new("groups is a list.")),
    };
    let mut aggregations = Vec::new();
    for group in groups {
        let group = group
            .as_object_mut()
            .ok_or_else(|| InvalidFilters::new("A condition group is an object."))?;
        let of_group = match group.get(AGGREGATION) {
            Some(index) => aggregation(Some(index))?,
            None => of_flag,
        };
        group.insert(AGGREGATION.into(), json!(of_group));
        aggregations.push(of_group);
        prepare_group(group, of_group, known, &mut quota)?;
    }
    quota.check().map_err(|why| InvalidFilters::new(why.to_string()))?;
    if let Some(first) = aggregations.first().copied() {
        let common = aggregations.iter().all(|other| *other == first).then_some(first).flatten();
        filters.insert(AGGREGATION.into(), json!(common));
    }
    Ok(())
}

fn aggregation(value: Option<&Value>) -> Result<Option<u8>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(index) => index
            .as_u64()
            .and_then(|index| u8::try_from(index).ok())
            .filter(|index| *index < GROUP_TYPES_MAX)
            .map(Some)
            .ok_or_else(|| {
                let last = GROUP_TYPES_MAX - 1;
                InvalidFilters::new(format!("{AGGREGATION} is a number from 0 to {last}, or null."))
            }),
    }
}

fn prepare_group(
    group: &mut Fields,
    of: Option<u8>,
    known: &HashSet<&str>,
    quota: &mut PatternQuota,
) -> Result<()> {
    if let Some(share) = group.get("rollout_percentage").filter(|share| !share.is_null()) {
        percentage("rollout_percentage", Some(share))?;
    }
    match group.get_mut("properties") {
        None | Some(Value::Null) => {
            group.insert("properties".into(), json!([]));
        }
        Some(Value::Array(properties)) => {
            for property in properties {
                let property = property
                    .as_object_mut()
                    .ok_or_else(|| InvalidFilters::new("A property is an object."))?;
                prepare_property(property, of, known, quota)?;
            }
        }
        Some(_) => return Err(InvalidFilters::new("properties is a list.")),
    }
    match group.get("variant") {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => Err(InvalidFilters::new("A group's variant is the key of one, or null.")),
    }
}

fn prepare_property(
    property: &mut Fields,
    of: Option<u8>,
    known: &HashSet<&str>,
    quota: &mut PatternQuota,
) -> Result<()> {
    let key = match property.get("key") {
        Some(Value::String(key)) if !key.is_empty() => key.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return Err(InvalidFilters::new("A property needs a key.")),
    };
    property.insert("key".into(), json!(key));
    let operator = operator(property)?;
    let kind = property.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (kind.as_str(), of) {
        ("person" | "person_metadata" | "cohort" | "flag", None) | ("group", Some(_)) => {}
        ("person" | "person_metadata" | "cohort" | "flag", Some(_)) => {
            return Err(InvalidFilters::new(
                "A condition on groups asks for group properties only.",
            ));
        }
        ("group", None) => {
            return Err(InvalidFilters::new(
                "A condition on persons asks for no group properties.",
            ));
        }
        _ => {
            let detail = "A property's type is person, cohort, group or flag.";
            return Err(InvalidFilters::new(detail));
        }
    }
    let value = property.get("value").unwrap_or(&Value::Null);
    match kind.as_str() {
        "cohort" => check_cohort(operator, value),
        "flag" => check_flag(property, operator, value),
        "group"
            if property.get("group_type_index").and_then(Value::as_u64) != of.map(u64::from) =>
        {
            Err(InvalidFilters::new(
                "A group property's group_type_index is that of its condition.",
            ))
        }
        _ => check_value(operator, value, known, quota),
    }
}

/// Validates the operator and replaces a legacy name by the current one.
fn operator(property: &mut Fields) -> Result<Operator> {
    let operator = match property.get("operator") {
        None | Some(Value::Null) => return Ok(Operator::Exact),
        Some(Value::String(word)) => {
            Operator::parse(word).map_err(|why| InvalidFilters::new(why.to_string()))?
        }
        Some(_) => return Err(InvalidFilters::new("An operator is a word.")),
    };
    property.insert("operator".into(), json!(operator.as_str()));
    Ok(operator)
}

fn check_cohort(operator: Operator, value: &Value) -> Result<()> {
    if !matches!(operator, Operator::Exact | Operator::In | Operator::NotIn) {
        return Err(InvalidFilters::new("A cohort's operator is in or not_in."));
    }
    match CohortId::from_json(value) {
        Some(_) => Ok(()),
        None => Err(InvalidFilters::unknown_cohort()),
    }
}

fn check_flag(property: &Fields, operator: Operator, value: &Value) -> Result<()> {
    if operator != Operator::FlagEvaluatesTo {
        return Err(InvalidFilters::new("A flag's operator is flag_evaluates_to."));
    }
    if property.get("key").and_then(flag_id).is_none() {
        return Err(InvalidFilters::new("A flag is named by its number."));
    }
    match value {
        Value::Bool(_) => Ok(()),
        Value::String(variant) if !variant.is_empty() => Ok(()),
        _ => Err(InvalidFilters::new("A flag evaluates to true, false or a variant.")),
    }
}

fn check_value(
    operator: Operator,
    value: &Value,
    known: &HashSet<&str>,
    quota: &mut PatternQuota,
) -> Result<()> {
    if matches!(operator, Operator::In | Operator::NotIn | Operator::FlagEvaluatesTo) {
        let detail = format!("Operator '{}' compares no property.", operator.as_str());
        return Err(InvalidFilters::new(detail));
    }
    let is_pattern = matches!(operator, Operator::Regex | Operator::NotRegex);
    if is_pattern && let Some(pattern) = value.as_str().filter(|text| known.contains(text)) {
        quota.add_stored(pattern);
        return Ok(());
    }
    property::check(operator, value, quota).map_err(|why| InvalidFilters::new(why.to_string()))
}

pub(super) fn check_overrides(filters: &Fields, variants: &[String]) -> Result<()> {
    for group in super::groups(filters) {
        let variant = group.get("variant").and_then(Value::as_str).filter(|key| !key.is_empty());
        if let Some(variant) = variant
            && !variants.iter().any(|key| key == variant)
        {
            return Err(InvalidFilters::new(format!("There is no variant '{variant}'.")));
        }
    }
    Ok(())
}

/// Remote configuration flags serve all persons: adds a group if there is none, and raises a rollout
/// of 0 % or none to 100 %.
pub(super) fn serve_everyone(filters: &mut Fields) {
    let Some(Value::Array(groups)) = filters.get_mut("groups") else { return };
    if groups.is_empty() {
        groups.push(json!({
            "properties": [], "rollout_percentage": 100, "variant": null, AGGREGATION: null,
        }));
    }
    for group in groups.iter_mut().filter_map(Value::as_object_mut) {
        let share = group.get("rollout_percentage").and_then(Value::as_f64);
        if share.is_none_or(|share| share == 0.0) {
            group.insert("rollout_percentage".into(), json!(100));
        }
    }
}
