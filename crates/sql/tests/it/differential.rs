//! Differential tests against ClickHouse (chDB) as the oracle.
//!
//! A generated insight is computed three times: by the operators of `insights`; by this crate, as
//! the statements of an independent reference lowering; and by ClickHouse, as the same statements.
//! Generated statements are run by this crate and by ClickHouse.

pub mod comparison;
mod fixed_events;
mod generated_statements;
mod lowered_insights;
mod mirrored_project;
mod reference;

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use hogql::PlaceholderValues;
use serde_json::{Value as Json, json};
use sql::{Limits, Paths};
use testing::clickhouse::{self, Batch, Outcome, Query};
use testing::{Rng, SEED, insights};

use crate::support::LIMITS;
use comparison::{difference, disagreement, report};
use mirrored_project::{MirroredProject, ZONES};
use reference::fragments::ReferencePlan;
use reference::lower;

/// Queries of one generated project.
const QUERIES_PER_PROJECT: u64 = 100;
/// Queries of one ClickHouse process.
const QUERIES_PER_PROCESS: u64 = 2_000;
/// Queries of each kind, unless `HEDGEROW_ORACLE_QUERIES` sets their number.
const INSIGHTS: u64 = 400;
const STATEMENTS: u64 = 1_350;

const _: () = assert!(INSIGHTS + STATEMENTS + fixed_events::STATEMENTS >= 2_000);

/// Compares with ClickHouse's outcomes; returns what differs.
type Check = dyn FnOnce(&[Outcome]) -> Option<String>;

/// The seeds to run, one per query: `count` by default. [`SEED`] sets the first one, and the only one
/// unless `HEDGEROW_ORACLE_QUERIES` sets the number.
fn seeds(count: u64) -> Range<u64> {
    let queries = std::env::var("HEDGEROW_ORACLE_QUERIES").ok();
    let queries: Option<u64> = queries.map(|number| number.parse().unwrap());
    match (testing::given_seed(), queries) {
        (Some(seed), queries) => seed..seed + queries.unwrap_or(1),
        (None, queries) => 0..queries.unwrap_or(count),
    }
}

/// Splits the seeds into ranges for one ClickHouse process each.
fn process_ranges(seeds: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = seeds.end;
    let starts = seeds.clone().step_by(QUERIES_PER_PROCESS as usize);
    starts.map(move |start| start..end.min(start + QUERIES_PER_PROCESS))
}

/// The members of a result that the reference computes.
fn masked(results: &Json, mask: &Json) -> Json {
    match (results, mask) {
        (Json::Array(results), Json::Array(masks)) => {
            let last = masks.last().unwrap_or(&Json::Null);
            let each = results.iter().enumerate();
            each.map(|(at, result)| masked(result, masks.get(at).unwrap_or(last))).collect()
        }
        (Json::Object(results), Json::Object(mask)) => {
            let member = |(key, mask): (&String, &Json)| {
                let value = results.get(key).map_or(Json::Null, |value| masked(value, mask));
                (key.clone(), value)
            };
            Json::Object(mask.iter().map(member).collect())
        }
        (other, _) => other.clone(),
    }
}

fn rows(outcome: &Json) -> Vec<Json> {
    outcome.as_array().unwrap().clone()
}

/// Each combination of the number of threads and of the rewrites that a plan may use.
fn limits_of(seed: u64) -> Limits {
    let is_on = |bit: u64| seed >> bit & 1 == 0;
    let paths = Paths { codes: is_on(1), late: is_on(2), conditions: is_on(3), sessions: is_on(4) };
    Limits { threads: 1 + (seed % 2) as usize, paths, ..LIMITS }
}

/// Runs statements on our engine.
fn run(project: &MirroredProject, seed: u64, texts: &[&str]) -> Vec<Outcome> {
    let limits = limits_of(seed);
    let run = |text: &&str| {
        let result = project.store.run_with(text, &PlaceholderValues::default(), None, &limits);
        result.map(|result| json!(result.rows)).map_err(|error| format!("{error:?}"))
    };
    texts.iter().map(run).collect()
}

/// The first disagreement between our engine and ClickHouse.
fn first_disagreement(texts: &[&str], ours: &[Outcome], theirs: &[Outcome]) -> Option<String> {
    let each = texts.iter().zip(ours.iter().zip(theirs));
    each.map(|(text, (ours, theirs))| disagreement(text, ours, theirs)).find_map(|why| why)
}

/// Runs all queries on ClickHouse, and on our side concurrently. Returns the number of queries, and
/// the disagreements.
fn compare<T>(
    projects: &[(MirroredProject, Vec<(u64, T)>)],
    theirs: impl Fn(&T) -> Vec<Query>,
    ours: impl Fn(&MirroredProject, u64, &T) -> Box<Check>,
) -> (usize, Vec<String>) {
    let batch = |(project, queries): &(MirroredProject, Vec<(u64, T)>)| Batch {
        setup: project.setup.clone(),
        zone: project.zone,
        queries: queries.iter().flat_map(|(_, query)| theirs(query)).collect(),
    };
    let running = clickhouse::run_batches(&projects.iter().map(batch).collect::<Vec<_>>());
    let mut checks = Vec::new();
    for (project, queries) in projects {
        let of_project =
            queries.iter().map(|(seed, query)| (theirs(query).len(), ours(project, *seed, query)));
        checks.push(of_project.collect::<Vec<_>>());
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for (checks, theirs) in checks.into_iter().zip(running.join().unwrap()) {
        let mut rest = theirs.as_slice();
        for (len, check) in checks {
            let (outcomes, others) = rest.split_at(len);
            rest = others;
            count += 1;
            wrong.extend(check(outcomes));
        }
    }
    (count, wrong)
}

/// Generates the projects of the seeds, each with its queries.
fn projects<T>(
    dir: &Path,
    zones: &[&'static str],
    seeds: &Range<u64>,
    generate: impl Fn(&mut Rng, &MirroredProject) -> T,
) -> Vec<(MirroredProject, Vec<(u64, T)>)> {
    let numbers = seeds.start / QUERIES_PER_PROJECT..=(seeds.end - 1) / QUERIES_PER_PROJECT;
    let project = |number: u64| {
        let dir = dir.join(number.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let project = MirroredProject::new(number, zones, &dir);
        let of_project = seeds.clone().filter(|seed| seed / QUERIES_PER_PROJECT == number);
        let query = |seed: u64| (seed, generate(&mut Rng::new(seed), &project));
        let queries = of_project.map(query).collect();
        (project, queries)
    };
    numbers.map(project).collect()
}

#[test]
fn insights_agree_with_reference_statements_and_clickhouse() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = seeds(INSIGHTS);
    let generate = |rng: &mut Rng, project: &MirroredProject| {
        let query = insights::Generator { rng, reference: project }.query();
        let reference = lower(project, &query);
        (query, Rc::new(reference))
    };
    let theirs = |(_, reference): &(Json, Rc<ReferencePlan>)| {
        reference.statements.iter().map(|statement| statement.clickhouse.clone()).collect()
    };
    let ours =
        |project: &MirroredProject, seed: u64, (query, reference): &(Json, Rc<ReferencePlan>)| {
            let ours = run(project, seed, &reference.texts());
            let insight = project.run_insight(query);
            let head = format!("{SEED}={seed}, {}: {query}", project.zone);
            let reference = reference.clone();
            Box::new(move |theirs: &[Outcome]| {
                let texts = reference.texts();
                if let Some(why) = first_disagreement(&texts, &ours, theirs) {
                    return Some(format!("{head}\n{why}"));
                }
                let rows: Vec<Vec<Json>> = ours.iter().flatten().map(rows).collect();
                let expected = (reference.to_result)(&rows);
                let path = difference(&masked(&insight, &expected), &expected)?;
                Some(format!("{head}\noperators and statements{path}\n{}", texts.join("\n")))
            }) as Box<Check>
        };
    let mut count = 0;
    for range in process_ranges(&seeds) {
        let projects = projects(dir.path(), ZONES, &range, generate);
        let (compared, wrong) = compare(&projects, theirs, ours);
        report("insights", &range, compared, &wrong);
        count += compared as u64;
    }
    assert_eq!(count, seeds.end - seeds.start);
}

#[test]
fn generated_statements_agree_with_clickhouse() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = seeds(STATEMENTS);
    let generate = |rng: &mut Rng, _: &MirroredProject| generated_statements::statement(rng);
    let theirs = |text: &String| vec![text.into()];
    let ours = |project: &MirroredProject, seed: u64, text: &String| {
        let ours = run(project, seed, &[text]);
        let head = format!("{SEED}={seed}, {}", project.zone);
        let text = text.clone();
        Box::new(move |theirs: &[Outcome]| {
            first_disagreement(&[&text], &ours, theirs).map(|why| format!("{head}\n{why}"))
        }) as Box<Check>
    };
    let mut count = 0;
    for range in process_ranges(&seeds) {
        let projects = projects(dir.path(), &ZONES[..ZONES.len() - 1], &range, generate);
        let (compared, wrong) = compare(&projects, theirs, ours);
        report("statements", &range, compared, &wrong);
        count += compared as u64;
    }
    assert_eq!(count, seeds.end - seeds.start);
}
