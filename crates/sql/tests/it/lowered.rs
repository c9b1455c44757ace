//! One insight, answered three times: by the operators of `insights`; as statements by our own
//! engine, in which those operators play no part; and as the same statements by ClickHouse.

mod funnels;
mod others;
mod paths;
mod questions;
mod trends;
mod twin;
mod words;

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use hogql::PlaceholderValues;
use serde_json::{Value as Json, json};
use sql::Limits;

use crate::agreeing;
use crate::clickhouse::{self, Lot, Query, Reply, difference, disagreement, report};
use crate::made::Made;
use crate::support::LIMITS;
use crate::varied;
use twin::{Twin, ZONES};
use words::Lowered;

/// What is asked of one project.
const SHARE: u64 = 100;
const PART: u64 = 2_000;
/// How much is asked, unless `HEDGEROW_ORACLE_QUERIES` says how much of each.
const INSIGHTS: u64 = 400;
const STATEMENTS: u64 = 1_350;

const _: () = assert!(INSIGHTS + STATEMENTS + agreeing::STATEMENTS >= 2_000);

/// What is wrong, once ClickHouse has answered.
type Check = dyn FnOnce(&[Reply]) -> Option<String>;

/// Numbers of what is asked: all, or from `HEDGEROW_ORACLE_SEED` on, that one alone unless
/// `HEDGEROW_ORACLE_QUERIES` says how many.
fn seeds(count: u64) -> Range<u64> {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    match (number("HEDGEROW_ORACLE_SEED"), number("HEDGEROW_ORACLE_QUERIES")) {
        (Some(seed), many) => seed..seed + many.unwrap_or(1),
        (None, many) => 0..many.unwrap_or(count),
    }
}

/// What one process of ClickHouse is asked.
fn parts(seeds: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = seeds.end;
    seeds.clone().step_by(PART as usize).map(move |start| start..end.min(start + PART))
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

/// What our own engine says to some texts.
fn engine(twin: &Twin, seed: u64, texts: &[&str]) -> Vec<Reply> {
    let limits = Limits { threads: 1 + (seed % 2) as usize, ..LIMITS };
    let ask = |text: &&str| {
        let found = twin.store.ask_with(text, &PlaceholderValues::default(), None, &limits);
        found.map(|answer| json!(answer.rows)).map_err(|error| format!("{error:?}"))
    };
    texts.iter().map(ask).collect()
}

/// Where ours and theirs first differ.
fn apart(texts: &[&str], ours: &[Reply], theirs: &[Reply]) -> Option<String> {
    let each = texts.iter().zip(ours.iter().zip(theirs));
    each.map(|(text, (ours, theirs))| disagreement(text, ours, theirs)).find_map(|why| why)
}

/// Asks ClickHouse for all, and ours meanwhile.
fn compare<T>(
    projects: &[(Twin, Vec<(u64, T)>)],
    theirs: impl Fn(&T) -> Vec<Query>,
    ours: impl Fn(&Twin, u64, &T) -> Box<Check>,
) -> (usize, Vec<String>) {
    let lot = |(twin, asked): &(Twin, Vec<(u64, T)>)| Lot {
        setup: twin.setup.clone(),
        zone: twin.zone,
        queries: asked.iter().flat_map(|(_, asked)| theirs(asked)).collect(),
    };
    let running = clickhouse::ask(&projects.iter().map(lot).collect::<Vec<_>>());
    let mut checks = Vec::new();
    for (twin, asked) in projects {
        let own = asked.iter().map(|(seed, asked)| (theirs(asked).len(), ours(twin, *seed, asked)));
        checks.push(own.collect::<Vec<_>>());
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for (checks, theirs) in checks.into_iter().zip(running.join().unwrap()) {
        let mut rest = theirs.as_slice();
        for (len, check) in checks {
            let (own, behind) = rest.split_at(len);
            rest = behind;
            count += 1;
            wrong.extend(check(own));
        }
    }
    (count, wrong)
}

/// Projects, each with its share of what is asked.
fn projects<T>(
    folder: &Path,
    zones: &[&'static str],
    seeds: &Range<u64>,
    ask: impl Fn(&mut Made, &Twin) -> T,
) -> Vec<(Twin, Vec<(u64, T)>)> {
    let numbers = seeds.start / SHARE..=(seeds.end - 1) / SHARE;
    let project = |number: u64| {
        let own = folder.join(number.to_string());
        std::fs::create_dir_all(&own).unwrap();
        let twin = Twin::new(number, zones, &own);
        let own = seeds.clone().filter(|seed| seed / SHARE == number);
        let asked = own.map(|seed| (seed, ask(&mut Made::new(seed), &twin))).collect();
        (twin, asked)
    };
    numbers.map(project).collect()
}

#[test]
fn operators_and_statements_and_clickhouse_agree_on_insights() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = seeds(INSIGHTS);
    let ask = |made: &mut Made, twin: &Twin| {
        let query = questions::any(made, twin);
        let lowered = lower(twin, &query);
        (query, Rc::new(lowered))
    };
    let theirs = |(_, lowered): &(Json, Rc<Lowered>)| {
        lowered.texts.iter().map(|one| one.theirs.clone()).collect()
    };
    let ours = |twin: &Twin, seed: u64, (query, lowered): &(Json, Rc<Lowered>)| {
        let texts: Vec<&str> = lowered.texts.iter().map(|one| one.text.as_str()).collect();
        let ours = engine(twin, seed, &texts);
        let operated = twin.operate(query);
        let head = format!("seed {seed}, {}: {query}", twin.zone);
        let lowered = lowered.clone();
        Box::new(move |theirs: &[Reply]| {
            let texts: Vec<&str> = lowered.texts.iter().map(|one| one.text.as_str()).collect();
            if let Some(why) = apart(&texts, &ours, theirs) {
                return Some(format!("{head}\n{why}"));
            }
            let rows: Vec<Vec<Json>> = ours.iter().flatten().map(rows).collect();
            let expected = (lowered.shape)(&rows);
            let place = difference(&only(&operated, &expected), &expected)?;
            Some(format!("{head}\noperators and statements{place}\n{}", texts.join("\n")))
        }) as Box<Check>
    };
    let mut count = 0;
    for part in parts(&seeds) {
        let projects = projects(folder.path(), ZONES, &part, ask);
        let (own, wrong) = compare(&projects, theirs, ours);
        report("insights", &part, own, &wrong);
        count += own as u64;
    }
    assert_eq!(count, seeds.end - seeds.start);
}

#[test]
fn our_engine_and_clickhouse_agree_on_statements() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = seeds(STATEMENTS);
    let ask = |made: &mut Made, _: &Twin| varied::statement(made);
    let theirs = |text: &String| vec![text.into()];
    let ours = |twin: &Twin, seed: u64, text: &String| {
        let ours = engine(twin, seed, &[text]);
        let head = format!("seed {seed}, {}", twin.zone);
        let text = text.clone();
        Box::new(move |theirs: &[Reply]| {
            apart(&[&text], &ours, theirs).map(|why| format!("{head}\n{why}"))
        }) as Box<Check>
    };
    let mut count = 0;
    for part in parts(&seeds) {
        let projects = projects(folder.path(), &ZONES[..ZONES.len() - 1], &part, ask);
        let (own, wrong) = compare(&projects, theirs, ours);
        report("statements", &part, own, &wrong);
        count += own as u64;
    }
    assert_eq!(count, seeds.end - seeds.start);
}
