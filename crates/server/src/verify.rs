//! `hedgerow verify`: reads all stores and reports corruption and inconsistencies. Read-only; may run
//! alongside a server.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use catalog::{Catalog, FileCheck, Location};
use clap::ArgMatches;
use journal::{JournalId, Survey};
use model::Clock;
use serde::Serialize;

use crate::cli::print;
use crate::clickhouse_store;
use crate::data_dir::{self, DataDir};
use crate::journal_location;
use crate::settings::Settings;
use crate::stores::{JournalBounds, Positions};

/// A server that flushes and compacts concurrently can cause false positives. Only problems that
/// every attempt finds are reported.
const ATTEMPTS: usize = 3;

const RESTORE: &str = "restore a backup (`hedgerow restore`)";
const UNREADABLE: &str =
    "it may be intact: check the disk and the permissions of the file, then verify again";
const REPAIR: &str = "`hedgerow repair` prints what can be salvaged";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// `journal`, `catalog`, `warehouse`, `positions` or `folder`.
    store: &'static str,
    what: String,
    remedy: String,
}

#[derive(Default, Serialize)]
struct Report {
    healthy: bool,
    journal: JournalReport,
    catalog: CatalogReport,
    warehouse: WarehouseReport,
    problems: Vec<Problem>,
}

#[derive(Default, Serialize)]
struct JournalReport {
    files: usize,
    records: u64,
    bytes: u64,
    oldest: u64,
    next: u64,
}

#[derive(Default, Serialize)]
struct CatalogReport {
    schema: i64,
    position: Option<u64>,
}

#[derive(Default, Serialize)]
struct WarehouseReport {
    files: usize,
    /// Written by releases before checksums; verified by decoding only.
    files_without_checksums: usize,
    events: u64,
    position: Option<u64>,
    /// The events are in ClickHouse, whose files are not verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_clickhouse: bool,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    journal_location::require_files(settings, "verify")?;
    let data_dir = DataDir::unlocked(&settings.data_dir);
    let shown = settings.data_dir.display();
    ensure!(settings.data_dir.is_dir(), "there is no data directory {shown}");
    let mut report = inspect(&data_dir, settings).await?;
    for _ in 1..ATTEMPTS {
        if report.problems.is_empty() {
            break;
        }
        let before = std::mem::take(&mut report.problems);
        report = inspect(&data_dir, settings).await?;
        report.problems.retain(|problem| before.contains(problem));
    }
    report.healthy = report.problems.is_empty();
    if args.get_flag("json") {
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&render(&report, &data_dir))?;
    }
    match report.problems.len() {
        0 => Ok(()),
        1 => bail!("1 problem was found in {shown}"),
        count => bail!("{count} problems were found in {shown}"),
    }
}

fn render(report: &Report, data_dir: &DataDir) -> String {
    let Report { journal, catalog, warehouse, problems, .. } = report;
    let mut text = format!(
        "journal    {} records in {} files, positions {} to {}\n",
        journal.records, journal.files, journal.oldest, journal.next
    );
    let position = |at: Option<u64>| at.map_or("none".to_owned(), |at| at.to_string());
    text +=
        &format!("catalog    schema {}, position {}\n", catalog.schema, position(catalog.position));
    text += &match warehouse.is_clickhouse {
        true => format!(
            "warehouse  ClickHouse, position {}; CHECK TABLE verifies its files\n",
            position(warehouse.position)
        ),
        false => format!(
            "warehouse  {} events in {} files ({} without checksums), position {}\n",
            warehouse.events,
            warehouse.files,
            warehouse.files_without_checksums,
            position(warehouse.position)
        ),
    };
    for Problem { store, what, remedy } in problems {
        text += &format!("problem    {store}: {what}; {remedy}\n");
    }
    if problems.is_empty() {
        text += &format!("{} is intact\n", data_dir.path().display());
    }
    text
}

/// Reads the warehouse, the catalog, then the journal: each is always at least as far as the one
/// before, so a concurrent server cannot make them look inconsistent.
async fn inspect(data_dir: &DataDir, settings: &Settings) -> Result<Report> {
    let mut report = Report::default();
    let problems = &mut report.problems;
    for (marker, what, remedy) in [
        (
            data_dir.restore_marker(),
            "a restore was interrupted",
            "empty the directory and restore again",
        ),
        (data_dir.repair_marker(), "a repair was interrupted", "run `hedgerow repair --yes` again"),
    ] {
        if marker.exists() {
            let what = format!("{what} ({})", marker.display());
            problems.push(Problem { store: "folder", what, remedy: remedy.to_owned() });
        }
    }
    let warehouse = match settings.warehouse_url.is_some() {
        true => check_clickhouse(settings, &mut report.warehouse, problems),
        false => check_warehouse(&data_dir.warehouse(), &mut report.warehouse, problems),
    };
    let catalog = check_catalog(data_dir, settings, problems).await;
    if let Some(catalog) = &catalog {
        report.catalog.schema = catalog.schema;
        report.catalog.position = catalog.offset.map(|(_, position)| position);
    }
    let id = catalog.as_ref().and_then(|catalog| catalog.offset).map(|(id, _)| id);
    let journal = check_journal(&data_dir.journal(), id.map(JournalId::from_u128), problems);
    if let Some(survey) = &journal {
        report.journal = JournalReport {
            files: survey.segments,
            records: survey.records,
            bytes: survey.record_bytes,
            oldest: survey.oldest.as_u64(),
            next: survey.next.as_u64(),
        };
    }
    // Positions are compared only if all three could be read.
    let (Some(catalog), Some(journal), true) = (catalog, journal, warehouse.is_some()) else {
        return Ok(report);
    };
    let mut positions = Positions::new(catalog.offset, warehouse.flatten());
    positions.journal = journal_bounds(&journal);
    let mut inconsistencies = positions.inconsistencies();
    // The server may have flushed the warehouse and then truncated the journal since it was read.
    let later = match settings.warehouse_url.is_some() {
        true => clickhouse_store::stored_position(settings).ok(),
        false => warehouse::stored_position(&data_dir.warehouse()).ok(),
    };
    let later = later.unwrap_or(warehouse.flatten());
    let mut later_positions = Positions::new(catalog.offset, later);
    later_positions.journal = positions.journal;
    let confirmed: Vec<String> =
        later_positions.inconsistencies().iter().map(ToString::to_string).collect();
    inconsistencies.retain(|inconsistency| {
        confirmed.contains(&inconsistency.to_string())
            || !matches!(inconsistency, crate::stores::Inconsistency::JournalStartsLate { .. })
    });
    problems.extend(inconsistencies.into_iter().map(|inconsistency| Problem {
        store: "positions",
        what: inconsistency.to_string(),
        remedy: inconsistency.remedy().to_owned(),
    }));
    Ok(report)
}

pub(crate) fn journal_bounds(survey: &Survey) -> Option<JournalBounds> {
    let (oldest, next) = (survey.oldest.as_u64(), survey.next.as_u64());
    survey.id.filter(|_| survey.segments > 0).map(|id| JournalBounds { id, oldest, next })
}

/// ClickHouse verifies its own checksums when it reads; only its position is checked.
fn check_clickhouse(
    settings: &Settings,
    report: &mut WarehouseReport,
    problems: &mut Vec<Problem>,
) -> Option<Option<warehouse::StoredPosition>> {
    report.is_clickhouse = true;
    match clickhouse_store::stored_position(settings) {
        Ok(stored) => {
            report.position = stored.map(|stored| stored.position);
            Some(stored)
        }
        Err(error) => {
            problems.push(Problem {
                store: "warehouse",
                what: format!("{error:#}"),
                remedy: "check that ClickHouse runs, and warehouse_url".to_owned(),
            });
            None
        }
    }
}

/// `None` if the warehouse is unreadable, `Some(None)` if there is none.
fn check_warehouse(
    dir: &Path,
    report: &mut WarehouseReport,
    problems: &mut Vec<Problem>,
) -> Option<Option<warehouse::StoredPosition>> {
    let mut problem = |what: String, remedy: &str| {
        problems.push(Problem { store: "warehouse", what, remedy: remedy.to_owned() });
    };
    let stand = match warehouse::stored_position(dir) {
        Ok(stand) => stand,
        Err(error) => {
            problem(error.to_string(), RESTORE);
            return None;
        }
    };
    report.position = stand.map(|stand| stand.position);
    if stand.is_some() {
        match warehouse::verify(dir, &mut |_| {}) {
            Ok(verified) => {
                report.files = verified.segments;
                report.files_without_checksums = verified.segments_unchecked;
                report.events = verified.rows;
                for unreadable in verified.unreadable {
                    let what = format!("{}: {}", unreadable.file.display(), unreadable.what);
                    problem(what, UNREADABLE);
                }
                for damage in verified.damage {
                    let what = format!("{}: {}", damage.file.display(), damage.what);
                    let remedy = format!(
                        "restore it from a backup, or drop its {} events with `hedgerow repair \
                         --drop-segment {}`",
                        damage.events, damage.segment
                    );
                    problem(what, &remedy);
                }
            }
            Err(error) => problem(error.to_string(), RESTORE),
        }
    }
    Some(stand)
}

async fn check_catalog(
    data_dir: &DataDir,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> Option<FileCheck> {
    let mut problem = |what: String| {
        problems.push(Problem { store: "catalog", what, remedy: RESTORE.to_owned() });
    };
    let file = data_dir.catalog_file();
    let checked = match data_dir::catalog_location(settings, &file) {
        Location::Sqlite(file) if !file.is_file() => {
            problem(format!("{} is missing", file.display()));
            return None;
        }
        Location::Sqlite(file) => catalog::check_file(file).map_err(anyhow::Error::new),
        location @ Location::Postgres(_) => inspect_postgres(location).await,
    };
    match checked {
        Ok(checked) => {
            for fault in &checked.faults {
                problem(format!("{}: {fault}", file.display()));
            }
            Some(checked)
        }
        Err(error) => {
            problem(format!("{:#}", error.context(format!("cannot read {}", file.display()))));
            None
        }
    }
}

/// Only checks that PostgreSQL responds: `pg_amcheck` verifies its pages.
async fn inspect_postgres(location: Location<'_>) -> Result<FileCheck> {
    let catalog = Catalog::inspect(location, Clock::system()).await.context("PostgreSQL")?;
    let (schema, offset) = (catalog.schema().await?, catalog.ingest().offset().await?);
    catalog.close().await;
    Ok(FileCheck { schema, offset, faults: Vec::new() })
}

fn check_journal(dir: &Path, id: Option<JournalId>, problems: &mut Vec<Problem>) -> Option<Survey> {
    let mut problem = |what: String, remedy: &str| {
        problems.push(Problem { store: "journal", what, remedy: remedy.to_owned() });
    };
    match journal::survey(dir, id, |_, _| Ok(())) {
        Ok(survey) => {
            for fault in &survey.faults {
                problem(fault.to_string(), REPAIR);
            }
            Some(survey)
        }
        Err(error @ journal::Error::Version { .. }) => {
            problem(error.to_string(), "start a newer release");
            None
        }
        Err(error) => {
            problem(error.to_string(), RESTORE);
            None
        }
    }
}
