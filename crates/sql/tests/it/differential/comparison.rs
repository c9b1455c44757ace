//! Compares our outcomes with ClickHouse's.

use std::ops::Range;

use serde_json::Value as Json;
use testing::clickhouse::Outcome;

/// Disagreements that a failure prints.
const SHOWN_MAX: usize = 12;

/// Equal, except that floats may differ by a relative 1e-9, and whole floats may be written as
/// integers.
pub fn same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
            a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-3)
        }
        (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => {
            difference(ours, theirs).is_none()
        }
        _ => ours == theirs,
    }
}

/// The path of the first difference between two results.
pub fn difference(ours: &Json, theirs: &Json) -> Option<String> {
    match (ours, theirs) {
        (Json::Array(a), Json::Array(b)) => {
            let inner = a.iter().zip(b).enumerate();
            let mut inner =
                inner.filter_map(|(at, (a, b))| Some(format!("[{at}]{}", difference(a, b)?)));
            inner.next().or_else(|| {
                let (longer, rest) = match a.len() > b.len() {
                    true => ("first", a.get(b.len())?),
                    false => ("second", b.get(a.len())?),
                };
                Some(format!(": {} and {}, the {longer} has {rest}", a.len(), b.len()))
            })
        }
        (Json::Object(a), Json::Object(b)) if a.len() == b.len() => {
            let member = |(key, a): (&String, &Json)| {
                let b = b.get(key).unwrap_or(&Json::Null);
                Some(format!(".{key}{}", difference(a, b)?))
            };
            a.iter().find_map(member)
        }
        _ => (!same(ours, theirs)).then(|| format!(": {ours} and {theirs}")),
    }
}

/// Why our outcome and ClickHouse's disagree on a statement.
pub fn disagreement(text: &str, ours: &Outcome, theirs: &Outcome) -> Option<String> {
    let why = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => format!("ours and theirs{}", difference(ours, theirs)?),
        // A statement that ClickHouse refuses proves nothing, so the generator must not make it.
        (_, Err(why)) => format!("theirs refuses: {why}"),
        (Err(why), _) => format!("ours refuses: {why}"),
    };
    Some(format!("{why}\n{text}"))
}

/// Prints how many queries were compared, and fails if any differ.
pub fn report(kind: &str, seeds: &Range<u64>, count: usize, wrong: &[String]) {
    println!("{count} {kind}, seeds {seeds:?}, {} differ", wrong.len());
    let shown: Vec<&str> = wrong.iter().take(SHOWN_MAX).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), shown.join("\n\n"));
}
