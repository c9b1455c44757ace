//! HogQL statements of many shapes against ClickHouse in the same run. One whose result differs, or
//! that fails, has no time and breaks its bound.
//!
//! `BENCH_STATEMENTS` runs those whose names contain one of its comma-separated parts, and only prints.

mod statements;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::answers::{Answer, same, same_by_name};
use crate::clickhouse::ClickHouse;
use crate::client::Client;
use crate::queries::{add, geometric_mean, peak};
use crate::report::{Bound, Report, Row};
use crate::server_process::ServerProcess;
use statements::{Statement, groups};

const ROUNDS: usize = 5;
/// A statement that has taken this long is not repeated.
const LONG: Duration = Duration::from_secs(15);
const EACH: Bound = Bound::RatioAtMost(3.0);
const OF_THE_EIGHT: Bound = Bound::RatioAtMost(1.5);
const TOGETHER: f64 = 1.0;
const WITH_PROPERTIES: Bound = Bound::RatioAtMost(3.0);
/// Characters of the reason why a statement has no time.
const WHY_CHARS_MAX: usize = 300;
const GROWTH: Bound = Bound::RatioAtMost(10.0);

/// Whether only some statements are wanted.
pub fn is_subset() -> bool {
    std::env::var_os("BENCH_STATEMENTS").is_some()
}

fn is_wanted(name: &str) -> bool {
    match std::env::var("BENCH_STATEMENTS") {
        Ok(parts) => parts.split(',').any(|part| name.contains(part.trim())),
        Err(_) => true,
    }
}

pub async fn run(
    report: &mut Report,
    server: &ServerProcess,
    clickhouse: &mut ClickHouse,
) -> Result<()> {
    let eight = the_eight();
    if !eight.is_empty() {
        report.begin("HogQL of the insights and one more, against ClickHouse (chDB)");
        let ratios = compare(report, server, clickhouse, &eight, OF_THE_EIGHT).await;
        geometric_mean(report, "geometric mean of the ratios", &ratios, TOGETHER);
    }
    let (mut ratios, mut with_properties) = (Vec::new(), Vec::new());
    for (group, statements) in wanted_groups() {
        report.begin(group);
        ratios.extend(compare(report, server, clickhouse, &statements, EACH).await);
        with_properties.extend(statements.into_iter().filter(|each| each.without.is_some()));
    }
    report.begin("All of these");
    let name = format!("geometric mean of {} ratios", ratios.len());
    geometric_mean(report, &name, &ratios, TOGETHER);
    if !with_properties.is_empty() {
        report.begin("Properties shown with a filter or a limit, against the same without them");
        for statement in &with_properties {
            let without = statement.without.as_deref().unwrap_or_default();
            let times = alternately([server, server], [&statement.hogql, without]).await;
            add_or_note(report, statement.name, times, "without", WITH_PROPERTIES);
        }
    }
    report.begin("Memory of all these");
    peak(report, "peak memory", server)
}

/// The statements of the insights, and one more.
fn the_eight() -> Vec<Statement> {
    let statements = crate::queries::statements().map(|(name, hogql, clickhouse)| Statement {
        name,
        hogql,
        clickhouse,
        without: None,
        is_ordered: true,
    });
    statements.filter(|statement| is_wanted(statement.name)).collect()
}

fn wanted_groups() -> impl Iterator<Item = (&'static str, Vec<Statement>)> {
    let wanted = |(group, mut statements): (_, Vec<Statement>)| {
        statements.retain(|statement| is_wanted(statement.name));
        (!statements.is_empty()).then_some((group, statements))
    };
    groups().filter_map(wanted)
}

/// Scaling: a server with all events against one with a tenth of them.
pub async fn growth(report: &mut Report, whole: &ServerProcess, tenth: &ServerProcess) {
    report.begin("HogQL on all events, against a tenth of them");
    let shapes = wanted_groups().flat_map(|(_, statements)| statements);
    for statement in the_eight().into_iter().chain(shapes) {
        let times = alternately([whole, tenth], [&statement.hogql; 2]).await;
        add_or_note(report, statement.name, times, "a tenth", GROWTH);
    }
}

/// Measures statements against ClickHouse; the ratios of those that have a time.
async fn compare(
    report: &mut Report,
    server: &ServerProcess,
    clickhouse: &mut ClickHouse,
    statements: &[Statement],
    bound: Bound,
) -> Vec<f64> {
    let mut ratios = Vec::new();
    for statement in statements {
        let times = measure(server, clickhouse, statement).await;
        ratios.extend(times.iter().map(|(ours, baseline)| ours / baseline));
        add_or_note(report, statement.name, times, "chDB", bound);
    }
    ratios
}

/// Milliseconds of two statements, each on its server: the minimum of some rounds after a warm-up.
async fn alternately(servers: [&ServerProcess; 2], statements: [&str; 2]) -> Result<(f64, f64)> {
    let mut clients = [Client::new(servers[0]).await?, Client::new(servers[1]).await?];
    let (mut best, started) = ([f64::MAX; 2], Instant::now());
    for round in 0..=ROUNDS {
        for (at, client) in clients.iter_mut().enumerate() {
            let (took, _) = timed(client, statements[at]).await?;
            if round > 0 {
                best[at] = best[at].min(took);
            }
        }
        if round > 0 && started.elapsed() > LONG {
            break;
        }
    }
    Ok((best[0], best[1]))
}

/// Milliseconds of both: the minimum of some rounds, after a warm-up whose results must agree.
async fn measure(
    server: &ServerProcess,
    clickhouse: &mut ClickHouse,
    statement: &Statement,
) -> Result<(f64, f64)> {
    let mut client = Client::new(server).await?;
    let (mut best, started) = ((f64::MAX, f64::MAX), Instant::now());
    for round in 0..=ROUNDS {
        let (ours, response) = timed(&mut client, &statement.hogql).await?;
        let (baseline, expected) = clickhouse.query(&statement.clickhouse)?;
        if round == 0 {
            check(statement, &response, &expected)?;
            continue;
        }
        best = (best.0.min(ours), best.1.min(baseline));
        if started.elapsed() > LONG {
            break;
        }
    }
    Ok(best)
}

fn check(statement: &Statement, response: &Value, expected: &Answer) -> Result<()> {
    let rows = response["results"].as_array().context("no rows")?.clone();
    if statement.without.is_none() {
        return same(statement.name, &rows, &expected.rows);
    }
    let columns = response["columns"].as_array().context("no columns")?.iter();
    let columns = columns.filter_map(Value::as_str).map(str::to_owned).collect();
    same_by_name(statement.name, &Answer { columns, rows }, expected, statement.is_ordered)
}

/// Milliseconds until the response is received, and the response.
async fn timed(client: &mut Client, hogql: &str) -> Result<(f64, Value)> {
    let query = json!({ "kind": "HogQLQuery", "query": hogql });
    let body = json!({ "query": query, "refresh": "force_blocking" });
    let started = Instant::now();
    let response = client.post("/api/projects/1/query/", &body).await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    let response: Value = serde_json::from_slice(response)?;
    ensure!(response["results"].is_array(), "no results");
    Ok((took, response))
}

/// Adds a statement's times, or why it has none.
fn add_or_note(
    report: &mut Report,
    name: &str,
    times: Result<(f64, f64)>,
    reference: &'static str,
    bound: Bound,
) {
    match times {
        Ok((ours, baseline)) => add(report, name, ours, (reference, baseline), bound),
        Err(why) => {
            let why: String = format!("{why:#}").replace(['|', '\n'], " ");
            report.add(Row {
                name: format!(
                    "{name}: NO TIME, {}",
                    why.chars().take(WHY_CHARS_MAX).collect::<String>()
                ),
                unit: "",
                ours: f64::NAN,
                reference: None,
                bound: Bound::AtMost(0.0),
            });
        }
    }
}
