//! `make bench`: runs every section, or those given as arguments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bench::clickhouse::ClickHouse;
use bench::reference::{Reference, uuid_text};
use bench::report::Report;
use bench::server_process::{ServerProcess, hedgerow};
use bench::{capture, flags, people, pipeline, queries, segments, sql, startup, ui};

/// The default takes about 15 minutes; `BENCH_EVENTS=10000000` is the full set.
const EVENTS: u64 = 1_000_000;
const SECTIONS: [&str; 9] =
    ["start", "capture", "flags", "pipeline", "queries", "sql", "segments", "people", "ui"];
/// Run only if they are named: `people` takes minutes for a million persons (`BENCH_PERSONS`), `ui` needs
/// Chromium and the web interface's packages.
const NAMED_ONLY: [&str; 2] = ["people", "ui"];

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
    let wanted = |section: &str| {
        let by_default = named.is_empty() && !NAMED_ONLY.contains(&section);
        by_default || named.iter().any(|name| name == section)
    };
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
    let stored_sections = ["pipeline", "queries", "sql"].map(wanted);
    if stored_sections.contains(&true) {
        stored(&mut report, events, stored_sections).await?;
    }
    if wanted("segments") {
        segments::run(&mut report, events.min(EVENTS)).await?;
    }
    if wanted("people") {
        let data = tempfile::tempdir()?;
        people::run(&mut report, data.path(), persons).await?;
    }
    if wanted("ui") {
        let data = tempfile::tempdir()?;
        ui::run(&mut report, data.path(), events).await?;
    }
    // A table of some statements must not replace that of all.
    if std::env::var_os("BENCH_PRINT_ONLY").is_some() || sql::is_subset() {
        return Ok(verdict(&report));
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let name = if named.is_empty() { "all".to_owned() } else { named.join("-") };
    let is_people = named == ["people"];
    let size = if is_people { persons } else { events };
    let name = if is_people && people::uses_postgres() { "people-postgres".into() } else { name };
    report.write(&dir, &format!("{name}-{size}"), events)?;
    Ok(verdict(&report))
}

fn verdict(report: &Report) -> ExitCode {
    if report.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the sections that need the reference set in a data directory. `BENCH_DATA` keeps and reuses one.
async fn stored(
    report: &mut Report,
    events: u64,
    [pipeline, queries, sql]: [bool; 3],
) -> Result<()> {
    let persistent = std::env::var_os("BENCH_DATA").map(PathBuf::from);
    let temporary = tempfile::tempdir()?;
    let dir = persistent.clone().unwrap_or_else(|| temporary.path().to_owned());
    let data = dir.join("data");
    if !data.exists() {
        match pipeline || queries {
            true => pipeline::run(report, &data, events).await?,
            false => pipeline::fill(&data, events).await?,
        }
    }
    if queries || sql {
        let Some(mut clickhouse) = ClickHouse::start(&dir.join("chdb"))? else {
            anyhow::bail!("no chDB: `make test-deps` brings it");
        };
        if !dir.join("loaded").exists() {
            clickhouse.load(events, &dir)?;
            std::fs::write(dir.join("loaded"), "")?;
        }
        against_clickhouse(report, &dir, events, &mut clickhouse, [queries, sql]).await?;
    }
    if !(pipeline || queries) || persistent.is_some() {
        return Ok(());
    }
    // Last, and not in a directory that is kept, since it adds events.
    let server = ServerProcess::start(&mut hedgerow(&data)?)?;
    let mut set = Reference::new(events);
    let first = set.next_event().context("the set is empty")?;
    pipeline::lists(report, &server, &uuid_text(first.uuid)).await
}

async fn against_clickhouse(
    report: &mut Report,
    dir: &Path,
    events: u64,
    clickhouse: &mut ClickHouse,
    [queries, sql]: [bool; 2],
) -> Result<()> {
    let data = dir.join("data");
    let tenth = dir.join("tenth");
    if events > EVENTS && !tenth.exists() {
        pipeline::fill(&tenth, events / 10).await?;
    }
    // Each section has a server of its own: the peak of its memory is that of the section.
    if queries {
        let server = ServerProcess::start(&mut hedgerow(&data)?)?;
        queries::run(report, &server, clickhouse).await?;
        if events > EVENTS {
            let tenth = ServerProcess::start(&mut hedgerow(&tenth)?)?;
            queries::growth(report, &server, &tenth).await?;
        }
        server.stop()?;
        let server =
            ServerProcess::start(hedgerow(&data)?.args(["--column-cache-bytes-max", "1 MiB"]))?;
        queries::uncached(report, &server, clickhouse).await?;
        server.stop()?;
    }
    if sql {
        let server = ServerProcess::start(&mut hedgerow(&data)?)?;
        sql::run(report, &server, clickhouse).await?;
        if events > EVENTS {
            let tenth = ServerProcess::start(&mut hedgerow(&tenth)?)?;
            sql::growth(report, &server, &tenth).await;
        }
        server.stop()?;
    }
    Ok(())
}
