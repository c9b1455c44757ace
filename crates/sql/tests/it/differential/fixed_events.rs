//! Differential test of generated and handwritten statements over one set of 2,000 events.

mod statements;

use std::path::Path;

use model::definition::{PropertyOwner, PropertyType};
use model::person::person_uuid;
use serde_json::json;
use testing::clickhouse::{self, Batch, Outcome};
use testing::{Rng, SEED};
use warehouse::Settings;

use super::comparison::{disagreement, report};
use super::seeds;
use crate::support::{PROJECT, Store, time};

use statements::{HANDWRITTEN, statement};

pub const STATEMENTS: u64 = 260;
const EVENTS: u64 = 2_000;
const PERSONS: u64 = 40;
const NAMES: [&str; 4] = ["view", "click", "signup", "pay"];
const BROWSERS: [&str; 3] = ["Chrome", "Safari", "Firefox"];
/// Fourteen days.
const SPAN_MICROS: u64 = 14 * 24 * 3600 * 1_000_000;

/// The same events in our store, and as statements that create ClickHouse's tables.
fn stores(dir: &Path) -> (Store, Vec<String>) {
    let mut rng = Rng::new(1);
    // Small limits, for several segments, row groups and rows in memory.
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
        let person = rng.range(0..PERSONS);
        let id = format!("{}{person}", if rng.range(0..3) == 0 { "v" } else { "u" });
        // All different, so that an order by timestamp is total.
        let at = start + (rng.range(0..SPAN_MICROS / EVENTS) + no * (SPAN_MICROS / EVENTS)) as i64;
        let name = NAMES[(rng.range(0..10) as usize).min(3)];
        let mut properties = json!({});
        if rng.range(0..4) > 0 {
            properties["amount"] = json!(rng.range(0..1_000) as f64 / 8.0);
        }
        if rng.range(0..5) > 0 {
            properties["browser"] = json!(BROWSERS[rng.range(0..3) as usize]);
        }
        if rng.range(0..2) > 0 {
            properties["active"] = json!(rng.range(0..2) == 0);
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
        let path = dir.join(name);
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

#[test]
fn statements_over_many_events_agree_with_clickhouse() {
    let dir = tempfile::tempdir().unwrap();
    let (store, setup) = stores(dir.path());
    let seeds = seeds(STATEMENTS);
    let mut texts: Vec<String> = seeds.clone().map(|seed| statement(&mut Rng::new(seed))).collect();
    texts.extend(HANDWRITTEN.iter().map(|text| (*text).to_owned()));
    let queries = texts.iter().map(Into::into).collect();
    let theirs = clickhouse::run_batches(&[Batch { setup, zone: "UTC", queries }]);
    let ours: Vec<Outcome> = texts
        .iter()
        .map(|text| store.run(text).map(|result| json!(result.rows)))
        .map(|outcome| outcome.map_err(|error| format!("{error:?}")))
        .collect();
    let theirs = theirs.join().unwrap().remove(0);
    let each = texts.iter().zip(ours.iter().zip(&theirs)).enumerate();
    let wrong: Vec<String> = each
        .filter_map(|(no, (text, (ours, theirs)))| {
            let why = disagreement(text, ours, theirs)?;
            Some(match seeds.clone().nth(no) {
                Some(seed) => format!("{SEED}={seed}\n{why}"),
                None => why,
            })
        })
        .collect();
    report("statements over many events", &seeds, texts.len(), &wrong);
}
