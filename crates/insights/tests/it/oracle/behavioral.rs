//! Reference implementation of behavioral filters.

use std::collections::{BTreeMap, BTreeSet};

use model::property::{Dialect, Node};
use serde_json::{Value as Json, json};
use testing::Rng;
use testing::insights::Generator;

use super::history::History;
use crate::project::{Project, at, limits};

const HOUR: i64 = 3_600_000_000;

fn random_leaf(history: &History, rng: &mut Rng) -> Json {
    let kinds = ["performed_event", "performed_event_multiple", "performed_event_first_time"];
    json!({
        "type": "behavioral",
        "event_type": "events",
        "key": rng.pick(&["a", "b", "c"]),
        "value": rng.pick(&kinds),
        "operator": rng.pick(&["gte", "lte", "gt", "lt", "exact"]),
        "operator_value": rng.range(1..5),
        "time_value": rng.range(1..400),
        "time_interval": "hour",
        "event_filters": Generator { rng, reference: history }.filters(),
    })
}

fn expected(project: &Project, history: &History, leaf: &Json) -> BTreeSet<u32> {
    let now = at(project.now).as_micros();
    let since = now - leaf["time_value"].as_i64().unwrap() * HOUR;
    let filters = json!({ "properties": leaf["event_filters"] });
    let node = json!({ "event": leaf["key"] });
    let mut did: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for row in &history.rows {
        let person = row.person.strip_prefix("person ").and_then(|no| no.parse().ok());
        if let Some(person) = person
            && row.time <= now
            && history.passes(row, &filters, &node)
        {
            did.entry(person).or_default().push(row.time);
        }
    }
    let wanted = leaf["operator_value"].as_u64().unwrap() as usize;
    let fits = |times: &Vec<i64>| {
        let recent = times.iter().filter(|time| **time >= since).count();
        match (leaf["value"].as_str().unwrap(), leaf["operator"].as_str().unwrap()) {
            ("performed_event", _) => recent > 0,
            ("performed_event_first_time", _) => times[0] >= since,
            (_, "gte") => recent >= wanted,
            (_, "lte") => recent > 0 && recent <= wanted,
            (_, "gt") => recent > wanted,
            (_, "lt") => recent > 0 && recent < wanted,
            _ => recent == wanted,
        }
    };
    did.into_iter().filter(|(_, times)| fits(times)).map(|(person, _)| person).collect()
}

pub fn check(project: &Project, history: &History, rng: &mut Rng) {
    let leaf = random_leaf(history, rng);
    let node = Node::parse(&leaf, &Dialect::default()).unwrap();
    let mut found = Vec::new();
    node.behavioral_filters(&mut found);
    let found = insights::matching_persons(found[0], &project.view(), &limits()).unwrap();
    let found: BTreeSet<u32> = found.iter().collect();
    assert_eq!(found, expected(project, history, &leaf), "{leaf}");
}
