//! Generated statements and insights.

#[path = "../../../../../sql/tests/it/differential/comparison.rs"]
#[allow(dead_code, reason = "sql compares outcomes of its own too")]
mod comparison;
#[path = "../../../../../sql/tests/it/differential/generated_statements.rs"]
#[allow(dead_code, reason = "sql's tests use more of it")]
mod generated_statements;
#[path = "../../../../../sql/tests/it/differential/mirrored_project.rs"]
#[allow(dead_code, reason = "sql's tests use more of it")]
mod mirrored_project;

use std::ops::Range;

use ::clickhouse::{Printed, print};
use hogql::PlaceholderValues;
use insights::{HogqlCompiler, Insight};
use serde_json::{Value as Json, json};
use testing::insights::{Generator, Reference};
use testing::{Rng, SEED};

use super::mirror::Twins;
use super::run;
use crate::store::View;
use comparison::{difference, report};
use mirrored_project::MirroredProject;
pub use mirrored_project::ZONES;

/// Queries of one generated project.
const QUERIES_PER_PROJECT: u64 = 50;
/// Of the statements, those that may read events into memory, in percent.
const PULLED_PERCENT_MAX: u64 = 2;

/// A sample, or as many as the statements of `sql`'s tests.
pub fn seeds(sample: u64, whole: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let is_full = std::env::var_os("HEDGEROW_TEST_FULL").is_some();
    let count = number("HEDGEROW_ORACLE_QUERIES");
    match testing::given_seed() {
        Some(seed) => seed..seed + count.unwrap_or(1),
        None => 0..count.unwrap_or(if is_full { whole } else { sample }),
    }
}

/// Draws every query: also those that depend on the order of events with equal timestamps.
pub struct Everything;

impl Reference for Everything {
    fn computes_filter(&self, _: &Json) -> bool {
        true
    }

    fn computes_node(&self, _: &Json) -> bool {
        true
    }

    fn computes_breakdown(&self, _: &Json) -> bool {
        true
    }

    /// All but strict funnels with optional steps, which are not lowered.
    fn computes_query(&self, query: &Json) -> bool {
        query["funnelsFilter"]["funnelOrderType"] != "strict"
            || !query.to_string().contains("\"optionalInFunnel\":true")
    }
}

/// Runs `check` for each seed on its project; returns the disagreements. None without ClickHouse.
pub fn each(
    seeds: &Range<u64>,
    zones: &[&'static str],
    mut check: impl FnMut(&Twins, u64) -> Option<String>,
) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut open: Option<(u64, Twins)> = None;
    for seed in seeds.clone() {
        let number = seed / QUERIES_PER_PROJECT;
        if open.as_ref().is_none_or(|(own, _)| *own != number) {
            let project = MirroredProject::new(number, zones, dir.path());
            open = Some((number, Twins::new(&project.view, &project.store.project)?));
        }
        let Some((_, twins)) = &open else { continue };
        wrong.extend(check(twins, seed).map(|why| format!("{SEED}={seed}: {why}")));
    }
    Some(wrong)
}

pub fn statement(view: &View, twins: &Twins, text: &str) -> Result<Json, String> {
    let plan = hogql::plan(text, &PlaceholderValues::default(), &twins.project, None);
    let plan = plan.map_err(|why| why.to_string())?;
    let rows = run(async |resources| view.statement(&plan, resources).await);
    let rows = rows.map_err(|why| why.to_string())?;
    let types: Vec<String> = rows.types.iter().map(|ty| format!("{ty:?}")).collect();
    Ok(json!([rows.columns, types, rows.rows, rows.has_more]))
}

/// Why ClickHouse does not compute a statement.
fn why_pulled(twins: &Twins, text: &str) -> String {
    let View::ClickHouse(view) = &twins.clickhouse else { return String::new() };
    let plan = hogql::plan(text, &PlaceholderValues::default(), &twins.project, None).unwrap();
    let printed = print(&plan, &twins.reader.schema().promoted(), &view.cohorts);
    let run = |printed: Printed| {
        let mut rows = twins.reader.client().select(&printed.statement)?;
        rows.try_for_each(|batch| batch.map(drop))
    };
    printed.and_then(run).map_or_else(|why| why.to_string(), |()| "a restriction".to_owned())
}

fn insight(view: &View, twins: &Twins, query: &Json) -> Result<Json, String> {
    let insight = Insight::parse(query["kind"].as_str().unwrap(), query).unwrap();
    let insight = insight.map_err(|why| why.to_string())?;
    let compiler = HogqlCompiler::new(twins.project.clone());
    let result = run(async |resources| view.insight(&insight, compiler, resources).await);
    let (result, _) = result.map_err(|why| why.to_string())?;
    Ok(json!([result.results, result.resolved]))
}

fn compare(ours: Result<Json, String>, theirs: Result<Json, String>) -> Option<String> {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            Some(format!("embedded and ClickHouse{}", difference(&ours, &theirs)?))
        }
        (Err(ours), Err(theirs)) if ours == theirs => None,
        (ours, theirs) => Some(format!("embedded {ours:?}, ClickHouse {theirs:?}")),
    }
}

#[test]
fn generated_statements_agree() {
    let seeds = seeds(60, 1_350);
    let mut pulls = 0;
    let zones = &ZONES[..ZONES.len() - 1];
    let checked = each(&seeds, zones, |twins, seed| {
        let text = generated_statements::statement(&mut Rng::new(seed));
        let ours = statement(&twins.embedded, twins, &text);
        let before = twins.reader.pulls();
        let theirs = statement(&twins.clickhouse, twins, &text);
        if twins.reader.pulls() > before {
            println!("read into memory: {}\n{text}", why_pulled(twins, &text));
            pulls += 1;
        }
        compare(ours, theirs).map(|why| format!("{why}\n{text}"))
    });
    let Some(wrong) = checked else { return };
    report("statements", &seeds, (seeds.end - seeds.start) as usize, &wrong);
    let bound = PULLED_PERCENT_MAX * (seeds.end - seeds.start) / 100;
    assert!(pulls <= bound, "{pulls} statements read events into memory, at most {bound} may");
}

#[test]
fn generated_insights_agree() {
    let seeds = seeds(8, 400);
    let mut pulls = Vec::new();
    let checked = each(&seeds, ZONES, |twins, seed| {
        let query = Generator { rng: &mut Rng::new(seed), reference: &Everything }.query();
        let ours = insight(&twins.embedded, twins, &query);
        let before = twins.reader.pulls();
        let theirs = insight(&twins.clickhouse, twins, &query);
        if twins.reader.pulls() > before {
            pulls.push(query.to_string());
        }
        compare(ours, theirs).map(|why| format!("{why}\n{query}"))
    });
    let Some(wrong) = checked else { return };
    report("insights", &seeds, (seeds.end - seeds.start) as usize, &wrong);
    assert!(pulls.is_empty(), "{} read events into memory:\n{}", pulls.len(), pulls.join("\n"));
}
