//! `make bench`: runs every section, or those given as arguments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bench::clickhouse::ClickHouse;
use bench::reference::{Reference, uuid_text};
use bench::report::Report;
use bench::server_process::{ServerProcess, hedgerow};
use bench::{capture, flags, people, pipeline, queries, segments, startup};

/// The default takes about 15 minutes; `BENCH_EVENTS=10000000` is the full set.
const EVENTS: u64 = 1_000_000;
/// `people` runs only if it is named: it takes minutes for a million persons (`BENCH_PERSONS`).
const SECTIONS: [&str; 7] =
    ["start", "capture", "flags", "pipeline", "queries", "segments", "people"];

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = named.iter().find(|name| !SECTIONS.contains(&name.as_str())) {
        anyhow::bail!("there is no section {unknown}; there are {}", SECTIONS.join(", "));
    }
    let wanted = |section: &str| named.is_empty() || named.iter().any(|name| name == section);
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name} is not a number")),
        Err(_) => Ok(default),
    };
    let events = number("BENCH_EVENTS", EVENTS)?;
    let persons = number("BENCH_PERSONS", people::PERSONS)?;
    let mut report = Report::default();
    if wanted("start") {
        startup::run(&mut report)?;
    }
    if wanted("capture") {
        capture::run(&mut report).await?;
    }
    if wanted("flags") {
        flags::run(&mut report).await?;
    }
    if wanted("pipeline") || wanted("queries") {
        stored(&mut report, events, wanted("queries")).await?;
    }
    if wanted("segments") {
        segments::run(&mut report, events.min(EVENTS)).await?;
    }
    if named.iter().any(|name| name == "people") {
        let data = tempfile::tempdir()?;
        people::run(&mut report, data.path(), persons).await?;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let name = if named.is_empty() { "all".to_owned() } else { named.join("-") };
    let size = if named == ["people"] { persons } else { events };
    report.write(&dir, &format!("{name}-{size}"), events)?;
    Ok(if report.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the sections that need the reference set in a data directory. `BENCH_DATA` keeps and reuses one.
async fn stored(report: &mut Report, events: u64, ask: bool) -> Result<()> {
    let persistent = std::env::var_os("BENCH_DATA").map(PathBuf::from);
    let temporary = tempfile::tempdir()?;
    let dir = persistent.unwrap_or_else(|| temporary.path().to_owned());
    let data = dir.join("data");
    if !data.exists() {
        pipeline::run(report, &data, events).await?;
    }
    let server = ServerProcess::start(&mut hedgerow(&data)?)?;
    let mut set = Reference::new(events);
    let first = set.next_event().context("the set is empty")?;
    if !ask {
        return pipeline::lists(report, &server, &uuid_text(first.uuid)).await;
    }
    let Some(mut clickhouse) = ClickHouse::start(&dir.join("chdb"))? else {
        anyhow::bail!("no chDB: `make test-deps` brings it");
    };
    if !dir.join("loaded").exists() {
        clickhouse.load(events, &dir)?;
        std::fs::write(dir.join("loaded"), "")?;
    }
    queries::run(report, &server, &mut clickhouse).await?;
    if events > EVENTS {
        let tenth = dir.join("tenth");
        if !tenth.exists() {
            pipeline::fill(&tenth, events / 10).await?;
        }
        let tenth = ServerProcess::start(&mut hedgerow(&tenth)?)?;
        queries::growth(report, &server, &tenth).await?;
    }
    server.stop()?;
    let server =
        ServerProcess::start(hedgerow(&data)?.args(["--column-cache-bytes-max", "1 MiB"]))?;
    queries::uncached(report, &server, &mut clickhouse).await?;
    server.stop()?;
    // Last, since it adds events.
    let server = ServerProcess::start(&mut hedgerow(&data)?)?;
    pipeline::lists(report, &server, &uuid_text(first.uuid)).await
}
