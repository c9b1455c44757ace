//! Ours against ClickHouse, on statements made up by seed over the same events.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::definition::{PropertyOwner, PropertyType};
use model::person::person_uuid;
use serde_json::{Value as Json, json};
use warehouse::Settings;

use crate::made::{Made, WRITTEN, statement};
use crate::support::{PROJECT, Store, time};

const STATEMENTS: u64 = 260;
const EVENTS: u64 = 2_000;
const PERSONS: u64 = 40;
const NAMES: [&str; 4] = ["view", "click", "signup", "pay"];
const BROWSERS: [&str; 3] = ["Chrome", "Safari", "Firefox"];
/// Fourteen days.
const SPAN_MICROS: u64 = 14 * 24 * 3600 * 1_000_000;

/// Where `tools/install-test-deps` puts Python's packages.
fn python() -> PathBuf {
    let folder = std::env::var_os("HEDGEROW_TEST_DEPS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        cache.unwrap_or_else(home).join("hedgerow/test-deps")
    });
    folder.join("venv/bin/python")
}

fn theirs(setup: &[String], queries: &[String]) -> Vec<Result<Json, String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/oracle.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run tools/install-test-deps first");
    let input = json!({"setup": setup, "queries": queries}).to_string();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "run tools/install-test-deps first");
    let answers: Vec<Json> = serde_json::from_slice(&output.stdout).unwrap();
    let one = |one: Json| match one.get("refusal") {
        Some(why) => Err(why.to_string()),
        None => Ok(one["rows"].clone()),
    };
    answers.into_iter().map(one).collect()
}

/// The same events in a store of ours and as statements that make ClickHouse's tables.
fn stores(folder: &Path) -> (Store, Vec<String>) {
    let mut made = Made::new(1);
    // Several segments, row groups and rows in memory.
    let settings = Settings {
        memory_rows_max: 700,
        row_group_rows: 256,
        segment_rows_max: 1_024,
        ..Settings::default()
    };
    let mut store = Store::with(settings);
    for (name, ty) in [("amount", PropertyType::Numeric), ("active", PropertyType::Boolean)] {
        store.define(name, ty);
    }
    let age = (PropertyOwner::Person, "age".to_owned());
    store.project.properties.insert(age, PropertyType::Numeric);
    let (mut persons, mut events) = (Vec::new(), Vec::new());
    for no in 0..PERSONS {
        let ids = [format!("u{no}"), format!("v{no}")];
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut properties = json!({"name": format!("n{}", no % 7)});
        if no % 5 != 0 {
            properties["age"] = json!(20 + no % 30);
        }
        store.person(no as u32, &ids, properties.clone());
        let uuid = person_uuid(PROJECT, ids[0]);
        persons.push(json!({"id": uuid, "properties": properties}).to_string());
    }
    let start = time("2024-01-01T00:00:00Z").as_micros();
    let mut rows = Vec::new();
    for no in 0..EVENTS {
        let person = made.below(PERSONS);
        let id = format!("{}{person}", if made.below(3) == 0 { "v" } else { "u" });
        // Unlike each other, so that an order by time is one order.
        let at = start + (made.below(SPAN_MICROS / EVENTS) + no * (SPAN_MICROS / EVENTS)) as i64;
        let name = NAMES[(made.below(10) as usize).min(3)];
        let mut properties = json!({});
        if made.below(4) > 0 {
            properties["amount"] = json!(made.below(1_000) as f64 / 8.0);
        }
        if made.below(5) > 0 {
            properties["browser"] = json!(BROWSERS[made.below(3) as usize]);
        }
        if made.below(2) > 0 {
            properties["active"] = json!(made.below(2) == 0);
        }
        let at = model::Timestamp::from_micros(at);
        let row = store.row(PROJECT, name, &id, at, properties.clone(), Default::default());
        events.push(
            json!({
                "uuid": row.uuid,
                "event": name,
                "timestamp": at.as_micros(),
                "distinct_id": id,
                "person_id": person_uuid(PROJECT, &format!("u{person}")),
                "properties": properties,
            })
            .to_string(),
        );
        rows.push(row);
        if rows.len() == 100 {
            store.append(std::mem::take(&mut rows));
        }
    }
    store.append(rows);
    let file = |name: &str, lines: &[String]| {
        let path = folder.join(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.display().to_string()
    };
    let setup = vec![
        "create table events (uuid UUID, event String, \
         timestamp DateTime64(6, 'UTC'), distinct_id String, person_id UUID, properties \
         Tuple(amount Nullable(Float64), browser Nullable(String), active Nullable(Bool))) \
         engine = Memory"
            .to_owned(),
        "create table persons (id UUID, properties Tuple(name Nullable(String), \
         age Nullable(Float64))) engine = Memory"
            .to_owned(),
        format!(
            "insert into persons select * from file('{}', JSONEachRow, 'id UUID, properties Tuple(name Nullable(String), age Nullable(Float64))')",
            file("persons", &persons)
        ),
        format!(
            "insert into events select uuid, event, fromUnixTimestamp64Micro(timestamp, 'UTC'), \
             distinct_id, person_id, properties from file('{}', JSONEachRow, \
             'uuid UUID, event String, timestamp Int64, distinct_id String, person_id UUID, \
             properties Tuple(amount Nullable(Float64), browser Nullable(String), \
             active Nullable(Bool))')",
            file("events", &events)
        ),
    ];
    (store, setup)
}

/// Equal, but for the last digits of floats and how whole ones are written.
fn same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
            a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-3)
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => ours == theirs,
    }
}

#[test]
fn statements_mean_what_they_mean_in_clickhouse() {
    let folder = tempfile::tempdir().unwrap();
    let (store, setup) = stores(folder.path());
    let mut texts: Vec<String> =
        (0..STATEMENTS).map(|seed| statement(&mut Made::new(seed))).collect();
    texts.extend(WRITTEN.iter().map(|text| (*text).to_owned()));
    let mut wrong = Vec::new();
    let mut refused = 0;
    for (text, theirs) in texts.iter().zip(theirs(&setup, &texts)) {
        let ours = match store.ask(text) {
            Ok(answer) => json!(answer.rows),
            Err(error) => {
                wrong.push(format!("{text}\n  ours:   {error:?}\n  theirs: {theirs:?}"));
                continue;
            }
        };
        match theirs {
            Ok(theirs) if same(&ours, &theirs) => {}
            Ok(theirs) => {
                let at = ours.as_array().unwrap().iter().zip(theirs.as_array().unwrap());
                let first = at.enumerate().find(|(_, (a, b))| !same(a, b));
                let counts = (ours.as_array().unwrap().len(), theirs.as_array().unwrap().len());
                wrong.push(format!("{text}\n  rows {counts:?}, first that differ: {first:?}"));
            }
            // A statement of ours that is none of theirs proves nothing.
            Err(why) => {
                refused += 1;
                wrong.push(format!("{text}\n  refused: {why}"));
            }
        }
    }
    let shown: Vec<&str> = wrong.iter().take(12).map(String::as_str).collect();
    let shown = shown.join("\n");
    assert!(wrong.is_empty(), "{} differ, {refused} refused:\n{shown}", wrong.len());
}
