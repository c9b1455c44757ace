//! Validation of variants and payloads.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Fields, InvalidFilters, Result, percentage};

/// Upstream's limit.
const VARIANT_CHARS_MAX: usize = 400;
/// Tolerance for rounding in sums like 33.33 + 33.33 + 33.34.
const SUM_TOLERANCE: f64 = 0.01;

/// Validates the variants and returns their keys; empty for a boolean flag.
pub(super) fn check(filters: &Fields) -> Result<Vec<String>> {
    let variants = match filters.get("multivariate") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(multivariate)) => multivariate.get("variants").and_then(Value::as_array),
        Some(_) => return Err(InvalidFilters::new("multivariate is an object or null.")),
    };
    let variants = variants
        .filter(|variants| !variants.is_empty())
        .ok_or_else(|| InvalidFilters::new("A multivariate flag needs variants."))?;
    let (mut keys, mut sum) = (Vec::with_capacity(variants.len()), 0.0);
    for variant in variants {
        keys.push(key(variant)?);
        sum += percentage("A variant's rollout_percentage", variant.get("rollout_percentage"))?;
    }
    let distinct: HashSet<&String> = keys.iter().collect();
    if distinct.len() < keys.len() {
        return Err(InvalidFilters::new("Variant keys must differ."));
    }
    if (sum - 100.0_f64).abs() > SUM_TOLERANCE {
        return Err(InvalidFilters::new(format!("The variants' shares sum to {sum}, not to 100.")));
    }
    Ok(keys)
}

fn key(variant: &Value) -> Result<String> {
    let key = variant.get("key").and_then(Value::as_str).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    if key.is_empty() || key.len() > VARIANT_CHARS_MAX || !key.bytes().all(plain) {
        return Err(InvalidFilters::new(format!(
            "A variant's key has 1 to {VARIANT_CHARS_MAX} letters, digits or any of _./-"
        )));
    }
    Ok(key.to_owned())
}

/// Validates payloads and stores each as a string of JSON.
pub(super) fn prepare_payloads(filters: &mut Fields, variants: &[String]) -> Result<()> {
    let payloads = match filters.get_mut("payloads") {
        None => return Ok(()),
        Some(missing @ Value::Null) => {
            *missing = json!({});
            return Ok(());
        }
        Some(Value::Object(payloads)) => payloads,
        Some(_) => return Err(InvalidFilters::new("payloads is an object.")),
    };
    for (key, payload) in payloads {
        let expected = match variants {
            [] => key == "true",
            variants => variants.contains(key),
        };
        if !expected {
            let detail = match variants {
                [] => "The payload of a boolean flag is under 'true'.".to_owned(),
                _ => format!("There is no variant '{key}' for this payload."),
            };
            return Err(InvalidFilters::new(detail));
        }
        match payload {
            Value::String(text) => {
                serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|_| {
                    InvalidFilters::new(format!("The payload of '{key}' is not valid JSON."))
                })?;
            }
            other => *other = Value::String(other.to_string()),
        }
    }
    Ok(())
}
