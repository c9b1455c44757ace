//! `hedgerow verify`: reads everything that is kept and says what is wrong with it. It changes
//! nothing, and runs beside a server or without one.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use catalog::{Catalog, Checked, Location};
use clap::ArgMatches;
use journal::{JournalId, Survey};
use model::Clock;
use serde::Serialize;

use crate::cli::say;
use crate::folder::{self, Folder};
use crate::settings::Settings;
use crate::stores::{JournalStand, Positions};

/// A server that writes and merges meanwhile may make files look damaged that are not: only what
/// is found each time counts.
const ATTEMPTS: usize = 3;

const RESTORE: &str = "restore a backup (`hedgerow restore`)";
const UNREADABLE: &str =
    "whether it is damaged is not known: look after the disk and the file's permissions";
const REPAIR: &str = "`hedgerow repair` says what can be saved";

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
    /// Of an older release: they were only decoded.
    files_without_checksums: usize,
    events: u64,
    position: Option<u64>,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let folder = Folder::at(&settings.data_dir);
    let shown = settings.data_dir.display();
    ensure!(settings.data_dir.is_dir(), "there is no data folder {shown}");
    let mut report = look(&folder, settings).await?;
    for _ in 1..ATTEMPTS {
        if report.problems.is_empty() {
            break;
        }
        let before = std::mem::take(&mut report.problems);
        report = look(&folder, settings).await?;
        report.problems.retain(|problem| before.contains(problem));
    }
    report.healthy = report.problems.is_empty();
    if given.get_flag("json") {
        say(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        say(&told(&report, &folder))?;
    }
    match report.problems.len() {
        0 => Ok(()),
        1 => bail!("1 problem was found in {shown}"),
        count => bail!("{count} problems were found in {shown}"),
    }
}

fn told(report: &Report, folder: &Folder) -> String {
    let Report { journal, catalog, warehouse, problems, .. } = report;
    let mut text = format!(
        "journal    {} records in {} files, positions {} to {}\n",
        journal.records, journal.files, journal.oldest, journal.next
    );
    let position = |at: Option<u64>| at.map_or("none".to_owned(), |at| at.to_string());
    text +=
        &format!("catalog    schema {}, position {}\n", catalog.schema, position(catalog.position));
    text += &format!(
        "warehouse  {} events in {} files ({} without checksums), position {}\n",
        warehouse.events,
        warehouse.files,
        warehouse.files_without_checksums,
        position(warehouse.position)
    );
    for Problem { store, what, remedy } in problems {
        text += &format!("damaged    {store}: {what}; {remedy}\n");
    }
    if problems.is_empty() {
        text += &format!("{} is whole\n", folder.path().display());
    }
    text
}

/// In the order in which a server is behind: warehouse, catalog, journal. What the later ones say
/// is never behind what the earlier ones said.
async fn look(folder: &Folder, settings: &Settings) -> Result<Report> {
    let mut report = Report::default();
    let problems = &mut report.problems;
    for (marker, what, remedy) in [
        (folder.restoring(), "a restore was cut short", "empty the folder and restore again"),
        (folder.repairing(), "a repair was cut short", "run `hedgerow repair --yes` again"),
    ] {
        if marker.exists() {
            let what = format!("{what} ({})", marker.display());
            problems.push(Problem { store: "folder", what, remedy: remedy.to_owned() });
        }
    }
    let warehouse = look_at_warehouse(&folder.warehouse(), &mut report.warehouse, problems);
    let catalog = look_at_catalog(folder, settings, problems).await;
    if let Some(catalog) = &catalog {
        report.catalog.schema = catalog.schema;
        report.catalog.position = catalog.offset.map(|(_, position)| position);
    }
    let id = catalog.as_ref().and_then(|catalog| catalog.offset).map(|(id, _)| id);
    let journal = look_at_journal(&folder.journal(), id.map(JournalId::from_u128), problems);
    if let Some(found) = &journal {
        report.journal = JournalReport {
            files: found.segments,
            records: found.records,
            bytes: found.record_bytes,
            oldest: found.oldest.as_u64(),
            next: found.next.as_u64(),
        };
    }
    // Without one of them there is nothing to compare.
    let (Some(catalog), Some(journal), true) = (catalog, journal, warehouse.is_some()) else {
        return Ok(report);
    };
    let mut positions = Positions::new(catalog.offset, warehouse.flatten());
    positions.journal = stand(&journal);
    let mut found = positions.disagreements();
    // The journal may have let go meanwhile of what the warehouse has by now.
    let later = warehouse::stand(&folder.warehouse()).unwrap_or(warehouse.flatten());
    let mut by_now = Positions::new(catalog.offset, later);
    by_now.journal = positions.journal;
    let still: Vec<String> = by_now.disagreements().iter().map(ToString::to_string).collect();
    found.retain(|one| {
        still.contains(&one.to_string())
            || !matches!(one, crate::stores::Disagreement::JournalBegins { .. })
    });
    problems.extend(found.into_iter().map(|one| Problem {
        store: "positions",
        what: one.to_string(),
        remedy: one.remedy().to_owned(),
    }));
    Ok(report)
}

pub(crate) fn stand(survey: &Survey) -> Option<JournalStand> {
    let (oldest, next) = (survey.oldest.as_u64(), survey.next.as_u64());
    survey.id.filter(|_| survey.segments > 0).map(|id| JournalStand { id, oldest, next })
}

/// None when it cannot be compared with the others; none inside when there is no warehouse.
fn look_at_warehouse(
    dir: &Path,
    report: &mut WarehouseReport,
    problems: &mut Vec<Problem>,
) -> Option<Option<warehouse::Stand>> {
    let mut problem = |what: String, remedy: &str| {
        problems.push(Problem { store: "warehouse", what, remedy: remedy.to_owned() });
    };
    let stand = match warehouse::stand(dir) {
        Ok(stand) => stand,
        Err(error) => {
            problem(error.to_string(), RESTORE);
            return None;
        }
    };
    report.position = stand.map(|stand| stand.position);
    if stand.is_some() {
        match warehouse::verify(dir, &mut |_| {}) {
            Ok(found) => {
                report.files = found.segments;
                report.files_without_checksums = found.segments_unchecked;
                report.events = found.rows;
                for one in found.unreadable {
                    let what = format!("{}: {}", one.file.display(), one.what);
                    problem(what, UNREADABLE);
                }
                for one in found.damage {
                    let what = format!("{}: {}", one.file.display(), one.what);
                    let drop = format!(
                        "restore it from a backup, or give up its {} events with `hedgerow repair \
                         --drop-segment {}`",
                        one.events, one.segment
                    );
                    problem(what, &drop);
                }
            }
            Err(error) => problem(error.to_string(), RESTORE),
        }
    }
    Some(stand)
}

async fn look_at_catalog(
    folder: &Folder,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> Option<Checked> {
    let mut problem = |what: String| {
        problems.push(Problem { store: "catalog", what, remedy: RESTORE.to_owned() });
    };
    let file = folder.catalog_file();
    let checked = match folder::location(settings, &file) {
        Location::Sqlite(file) if !file.is_file() => {
            problem(format!("{} is missing", file.display()));
            return None;
        }
        Location::Sqlite(file) => catalog::check_file(file).map_err(anyhow::Error::new),
        location @ Location::Postgres(_) => asked(location).await,
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

/// PostgreSQL checks its own pages (`pg_amcheck`); that it answers is what can be seen from here.
async fn asked(location: Location<'_>) -> Result<Checked> {
    let catalog = Catalog::inspect(location, Clock::system()).await.context("PostgreSQL")?;
    let (schema, offset) = (catalog.schema().await?, catalog.ingest_offset().await?);
    catalog.close().await;
    Ok(Checked { schema, offset, faults: Vec::new() })
}

fn look_at_journal(
    dir: &Path,
    id: Option<JournalId>,
    problems: &mut Vec<Problem>,
) -> Option<Survey> {
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
