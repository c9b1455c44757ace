//! Test vectors recorded from posthog-python.

use flags::{bucket, holdout_bucket};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{compile, everything, flag, person, shown};

const RECORDED: &str = include_str!("../../../../fixtures/flags/flag_hash.json");

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap()
}

#[derive(Deserialize)]
struct Hashes {
    hashes: Vec<Hashed>,
    holdout_hashes: Vec<Hashed>,
}

#[derive(Deserialize)]
struct Hashed {
    #[serde(default)]
    flag_key: String,
    distinct_id: String,
    #[serde(default)]
    salt: String,
    /// A string, as serde_json parses long fractions with an error in the last bit.
    hash: Box<RawValue>,
}

// contract: flags 57
#[test]
fn bucketing_reproduces_every_recorded_hash_exactly() {
    let recorded: Hashes = serde_json::from_str(RECORDED).unwrap();
    assert_eq!((recorded.hashes.len(), recorded.holdout_hashes.len()), (2_000, 200));
    for row in recorded.hashes {
        let value = bucket(&row.flag_key, &row.distinct_id, &row.salt);
        assert_eq!(Ok(value), row.hash.get().parse(), "{} {}", row.flag_key, row.distinct_id);
    }
    for row in recorded.holdout_hashes {
        let value = holdout_bucket(&row.distinct_id);
        assert_eq!(Ok(value), row.hash.get().parse(), "{}", row.distinct_id);
    }
}

#[test]
fn evaluation_reproduces_every_recorded_outcome() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut checked = 0;
    for config in recorded["flag_configs"].as_array().unwrap() {
        let definition = &config["flag"];
        let id = definition["id"].as_i64().unwrap();
        let set = compile(&[flag(id, text(definition, "key"), definition["filters"].clone())]);
        let outcomes = recorded["outcomes"].as_array().unwrap();
        let outcomes = outcomes.iter().find(|rows| rows["config"] == config["name"]).unwrap();
        for row in outcomes["rows"].as_array().unwrap() {
            let context = person(text(row, "distinct_id"), row["properties"].clone());
            let results = set.evaluate(&context, &everything());
            assert_eq!(shown(&results.results[0]).0, row["expected"], "{} {row}", config["name"]);
            checked += 1;
        }
    }
    assert_eq!(checked, 3_300);
}
