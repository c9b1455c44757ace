//! One insight, answered three times: by the operators of `insights`; as statements by our own
//! engine, in which those operators play no part; and as the same statements by ClickHouse.

mod funnels;
mod others;
mod paths;
mod questions;
mod trends;
mod twin;
mod words;

use std::time::Instant;

use hogql::Values;
use serde_json::{Value as Json, json};
use sql::Limits;

use crate::clickhouse::{self, Lot, Reply, difference};
use crate::made::Made;
use crate::support::LIMITS;
use twin::Twin;
use words::{Lowered, Statement};

/// Questions of one project.
const QUESTIONS: u64 = 60;
/// How many there are, unless `HEDGEROW_ORACLE_QUERIES` says so.
const INSIGHTS: u64 = 1_200;

/// Its number, what is asked, and how it is said in statements.
type Asked = (u64, Json, Lowered);

/// Numbers of what is asked: all, or the one of `HEDGEROW_ORACLE_SEED`.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    match number("HEDGEROW_ORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEDGEROW_ORACLE_QUERIES").unwrap_or(count),
    }
}

fn lower(twin: &Twin, query: &Json) -> Lowered {
    match query["kind"].as_str().unwrap() {
        "TrendsQuery" => trends::lower(twin, query),
        "FunnelsQuery" => funnels::lower(twin, query),
        "RetentionQuery" => others::retention(twin, query),
        "LifecycleQuery" => others::lifecycle(twin, query),
        "StickinessQuery" => others::stickiness(twin, query),
        _ => paths::lower(twin, query),
    }
}

/// What a lowering says of an answer: only those members.
fn only(results: &Json, shape: &Json) -> Json {
    match (results, shape) {
        (Json::Array(results), Json::Array(shapes)) => {
            let last = shapes.last().unwrap_or(&Json::Null);
            let each = results.iter().enumerate();
            each.map(|(at, result)| only(result, shapes.get(at).unwrap_or(last))).collect()
        }
        (Json::Object(own), Json::Object(shape)) => {
            let member = |(key, shape): (&String, &Json)| {
                (key.clone(), own.get(key).map_or(Json::Null, |own| only(own, shape)))
            };
            Json::Object(shape.iter().map(member).collect())
        }
        (other, _) => other.clone(),
    }
}

fn rows(reply: &Json) -> Vec<Json> {
    reply.as_array().unwrap().clone()
}

/// Why the three do not agree.
fn disagreement(twin: &Twin, (seed, query, lowered): &Asked, theirs: &[Reply]) -> Option<String> {
    let limits = Limits { threads: 1 + (seed % 2) as usize, ..LIMITS };
    let mut ours = Vec::new();
    for (Statement { text, .. }, theirs) in lowered.texts.iter().zip(theirs) {
        let own = match twin.store.ask_with(text, &Values::default(), None, &limits) {
            Ok(answer) => json!(answer.rows),
            Err(error) => return Some(format!("ours refuses: {error:?}\n{text}")),
        };
        match theirs {
            Err(why) => return Some(format!("theirs refuses: {why}\n{text}")),
            Ok(theirs) => {
                if let Some(place) = difference(&own, theirs) {
                    return Some(format!("ours and theirs{place}\n{text}"));
                }
            }
        }
        ours.push(rows(&own));
    }
    let expected = (lowered.shape)(&ours);
    let found = only(&twin.operate(query), &expected);
    difference(&found, &expected).map(|place| {
        let texts: Vec<&str> = lowered.texts.iter().map(|one| one.text.as_str()).collect();
        format!("operators and statements{place}\n{}", texts.join("\n"))
    })
}

#[test]
fn operators_and_statements_and_clickhouse_agree() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let seeds = seeds(INSIGHTS);
    let mut projects: Vec<(Twin, Vec<Asked>)> = Vec::new();
    for project in seeds.start / QUESTIONS..=(seeds.end - 1) / QUESTIONS {
        let own = folder.path().join(project.to_string());
        std::fs::create_dir(&own).unwrap();
        let twin = Twin::new(project, &own);
        let own = seeds.clone().filter(|seed| seed / QUESTIONS == project);
        let asked = own.map(|seed| {
            let query = questions::any(&mut Made::new(seed), &twin);
            let lowered = lower(&twin, &query);
            (seed, query, lowered)
        });
        let asked = asked.collect();
        projects.push((twin, asked));
    }
    let lot = |(twin, asked): &(Twin, Vec<Asked>)| Lot {
        setup: twin.setup.clone(),
        zone: twin.zone,
        queries: asked.iter().flat_map(|(_, _, lowered)| &lowered.texts).map(|one| one.theirs.clone()).collect(),
    };
    let lots: Vec<Lot> = projects.iter().map(lot).collect();
    println!("made {:?}", begun.elapsed());
    let theirs = clickhouse::ask(&lots).join().unwrap();
    println!("theirs {:?}", begun.elapsed());
    let (mut count, mut wrong) = (0, Vec::new());
    for ((twin, asked), theirs) in projects.iter().zip(theirs) {
        let mut rest = theirs.as_slice();
        for asked in asked {
            let (own, behind) = rest.split_at(asked.2.texts.len());
            rest = behind;
            count += 1;
            if let Some(why) = disagreement(twin, asked, own) {
                wrong.push(format!("seed {}, {}: {}\n{why}", asked.0, twin.zone, asked.1));
            }
        }
    }
    println!("{count} insights, {} differ, {:?}", wrong.len(), begun.elapsed());
    let shown: Vec<&str> = wrong.iter().take(12).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), shown.join("\n\n"));
    assert_eq!(count, seeds.end - seeds.start);
}
