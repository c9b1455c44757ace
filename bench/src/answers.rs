//! Compares results with ClickHouse's. The JSON of the two differs in form: ClickHouse returns 64-bit
//! integers as strings and timestamps without a zone.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// How far apart two numbers may be, relative to their size: sums of floats depend on their order.
const TOLERANCE: f64 = 1e-9;
/// Columns that only ClickHouse has.
const OWN_KEYS: [&str; 2] = ["person", "session"];

/// A result: its column names and rows. Insights have no column names.
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Value>,
}

pub fn same(name: &str, ours: &[Value], baseline: &[Value]) -> Result<()> {
    ensure!(ours.len() == baseline.len(), "{name}: {} rows, chDB {}", ours.len(), baseline.len());
    for (own, their) in ours.iter().zip(baseline) {
        ensure!(equal(own, their), "{name}: {own} differs from chDB's {their}");
    }
    Ok(())
}

/// As [`same`], for rows of which ours have the properties as JSON and ClickHouse's as columns. Rows
/// without an order are compared in that of their timestamps, which are unique.
pub fn same_by_name(name: &str, ours: &Answer, baseline: &Answer, is_ordered: bool) -> Result<()> {
    let (mut own_rows, mut rows) = (named(ours)?, named(baseline)?);
    if !is_ordered {
        for rows in [&mut own_rows, &mut rows] {
            rows.sort_by_key(|row| row.get("timestamp").map(|time| plain_time(&text(time))));
        }
    }
    ensure!(own_rows.len() == rows.len(), "{name}: {} rows, chDB {}", own_rows.len(), rows.len());
    let shown = |column: &str| ours.columns.iter().any(|own| own == column);
    for (own, their) in own_rows.iter().zip(&rows) {
        let properties = own.get("properties").and_then(|json| json.as_str());
        let properties: Value = serde_json::from_str(properties.context("no properties")?)?;
        for (column, expected) in their {
            if OWN_KEYS.contains(column) || FIXED.contains(column) && !shown(column) {
                continue;
            }
            let value = own.get(column).copied().unwrap_or(&properties[column]);
            let is_absent = value.is_null() && expected.as_str() == Some("");
            ensure!(
                is_absent || equal(value, expected),
                "{name}: {column} is {value}, not {expected}"
            );
        }
    }
    Ok(())
}

/// Columns of ClickHouse's table that are no properties.
const FIXED: [&str; 3] = ["event", "timestamp", "distinct_id"];

type Named<'a> = BTreeMap<&'a str, &'a Value>;

fn named(answer: &Answer) -> Result<Vec<Named<'_>>> {
    let row = |row: &'_ Value| row.as_array().map(Vec::len) == Some(answer.columns.len());
    ensure!(answer.rows.iter().all(row), "a row has another number of values than columns");
    let columns = || answer.columns.iter().map(String::as_str);
    let rows = answer.rows.iter().filter_map(Value::as_array);
    Ok(rows.map(|values| columns().zip(values).collect()).collect())
}

fn equal(own: &Value, their: &Value) -> bool {
    match (own, their) {
        (Value::Array(own), Value::Array(their)) => {
            own.len() == their.len() && own.iter().zip(their).all(|(own, their)| equal(own, their))
        }
        (Value::Number(own), their) => match (own.as_f64(), number(their)) {
            (Some(own), Some(their)) => (own - their).abs() <= TOLERANCE * own.abs().max(1.0),
            _ => false,
        },
        (Value::String(own), Value::String(their)) => {
            own == their || plain_time(own) == plain_time(their)
        }
        // A property of true and false as text has the type of its definition.
        (Value::Bool(own), Value::String(_)) => text(their) == if *own { "true" } else { "false" },
        (Value::Bool(own), Value::Number(_)) => number(their) == Some(f64::from(u8::from(*own))),
        (own, their) => own == their,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A timestamp as ClickHouse writes it, without trailing zeros; other texts as they are.
fn plain_time(text: &str) -> String {
    let is_time = text.len() >= 19 && text.is_char_boundary(10) && text.starts_with("20");
    if !is_time {
        return text.to_owned();
    }
    let zoneless = text.trim_end_matches('Z').trim_end_matches("+00:00").replacen('T', " ", 1);
    match zoneless.split_once('.') {
        Some((seconds, fraction)) if fraction.bytes().all(|digit| digit.is_ascii_digit()) => {
            let fraction = fraction.trim_end_matches('0');
            if fraction.is_empty() { seconds.to_owned() } else { format!("{seconds}.{fraction}") }
        }
        _ => zoneless,
    }
}
