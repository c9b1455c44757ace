//! `hedgerow repair`: makes inconsistent stores consistent again by rewriting the journal.
//!
//! It salvages every readable record into a new journal at its old position. The new journal begins
//! at the warehouse's position and continues past both stores' positions. So no new event reuses a
//! position that was applied, and no readable record that is still to be applied is lost. The
//! catalog and the rows of the warehouse stay unchanged: rows refer to dense ids that only the
//! catalog knows. Replaced files are moved to `repair-<time>`, never deleted.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use catalog::{Catalog, Location};
use clap::ArgMatches;
use journal::{JournalId, Position, SalvageTarget, Survey};
use model::Clock;

use crate::cli::print;
use crate::data_dir::{self, DataDir};
use crate::journal_location;
use crate::settings::Settings;
use crate::stores::{self, Inconsistency, Positions, format_positions};
use crate::verify;

const MANIFEST: &str = "a manifest cannot be rebuilt from Parquet files, which do not record which of \
    them were merged into others, which rows were deleted, and how far the journal was applied";
/// The new journal before it is renamed to `journal`.
const REPAIRED: &str = "journal.repaired";
/// The second line of the marker if there was no journal to move.
const NO_JOURNAL: &str = "no journal";
/// Lost ranges of positions that the plan lists.
const RANGES_LISTED_MAX: usize = 10;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    journal_location::require_files(settings, "repair")?;
    let dir = &settings.data_dir;
    ensure!(dir.is_dir(), "there is no data directory {}", dir.display());
    ensure!(
        settings.warehouse_url.is_none(),
        "the events are in ClickHouse, whose position repair does not know: restore the data \
         directory and ClickHouse from copies of one time (docs/CLUSTER.md)"
    );
    let data_dir = DataDir::acquire_for_repair(dir)?;
    stores::check_versions(&data_dir)?;
    let execute = args.get_flag("yes") && !args.get_flag("dry_run");
    roll_back_interrupted(&data_dir, execute)?;
    let catalog = open_catalog(&data_dir, settings).await?;
    // A server on another machine may use the same PostgreSQL.
    catalog.renew_ownership().await.context("cannot lock the catalog")?;
    let offset = catalog.ingest().offset().await.context("cannot read the catalog")?;
    let mut plan = plan(&data_dir, offset)?;
    plan.segments = segments(&data_dir, args)?;
    print(&plan.render())?;
    if !plan.is_empty() {
        if execute {
            print(&execute_plan(&data_dir, &plan)?)?;
        } else {
            print("nothing was changed; run the same command with `--yes` to do it\n")?;
        }
    }
    catalog.close().await;
    Ok(())
}

async fn open_catalog(data_dir: &DataDir, settings: &Settings) -> Result<Catalog> {
    let file = data_dir.catalog_file();
    if let Location::Sqlite(file) = data_dir::catalog_location(settings, &file) {
        let restore = "a catalog cannot be rebuilt from events; restore a backup";
        ensure!(file.is_file(), "there is no {}; {restore}", file.display());
        let checked = catalog::check_file(file)
            .with_context(|| format!("cannot read {}; {restore}", file.display()))?;
        if let Some(fault) = checked.faults.first() {
            bail!("{} is corrupted: {fault}; {restore}", file.display());
        }
    }
    let location = data_dir::catalog_location(settings, &file);
    Catalog::inspect(location, Clock::system()).await.context("cannot open the catalog")
}

/// What the repair will do, and why.
struct Plan {
    reasons: Vec<String>,
    survey: Survey,
    target: Option<SalvageTarget>,
    /// Records that the new journal takes over.
    salvaged: u64,
    /// The positions of the warehouse and of the catalog.
    stored: (u64, u64),
    imports: bool,
    /// Segments of the warehouse to drop.
    segments: BTreeSet<String>,
}

/// The segments of `--drop-segment`, and all corrupted ones with `--drop-damaged`.
fn segments(data_dir: &DataDir, args: &ArgMatches) -> Result<BTreeSet<String>> {
    let listed = args.get_many::<String>("drop_segment").into_iter().flatten();
    let mut segments: BTreeSet<String> = listed.cloned().collect();
    if args.get_flag("drop_damaged") {
        let verified = warehouse::verify(&data_dir.warehouse(), &mut |_| {})?;
        segments.extend(verified.damage.into_iter().map(|damage| damage.segment));
        // A disk error or missing permissions do not mean corruption.
        for unreadable in verified.unreadable {
            let (file, what) = (unreadable.file.display(), unreadable.what);
            print(&format!("{file} cannot be read, and is not dropped: {what}\n"))?;
        }
    }
    Ok(segments)
}

fn plan(data_dir: &DataDir, catalog: Option<(u128, u64)>) -> Result<Plan> {
    let warehouse = warehouse::stored_position(&data_dir.warehouse()).context(MANIFEST)?;
    let mut positions = Positions::new(catalog, warehouse);
    let ids = [positions.catalog, positions.warehouse];
    let stored_id = ids.into_iter().flatten().map(|(id, _)| id).next();
    let oldest = positions.warehouse.map_or(1, |(_, position)| position);
    let applied = positions.catalog.map_or(1, |(_, position)| position);
    let mut salvaged = 0;
    let survey = journal::survey(&data_dir.journal(), stored_id, |position, _| {
        salvaged += u64::from(position.as_u64() >= oldest);
        Ok(())
    })?;
    positions.journal = verify::journal_bounds(&survey);
    let inconsistencies = positions.inconsistencies();
    if let Some(fatal) = inconsistencies.iter().find(|found| !found.is_repairable()) {
        let why = match fatal {
            Inconsistency::WarehouseMissing { .. } => MANIFEST,
            _ => "that cannot be repaired",
        };
        bail!("{fatal}; {why}: {}", fatal.remedy());
    }
    let mut reasons: Vec<String> = survey.faults.iter().map(ToString::to_string).collect();
    reasons.extend(inconsistencies.iter().map(ToString::to_string));
    let mut plan = Plan {
        imports: !reasons.is_empty() && data_dir.imports().is_dir(),
        reasons,
        survey,
        target: None,
        salvaged,
        stored: (oldest, applied),
        segments: BTreeSet::new(),
    };
    if !plan.reasons.is_empty() {
        let id = stored_id.or(plan.survey.id);
        let id = id.context("no header of the journal can be read; restore a backup")?;
        if plan.is_foreign_journal(id) {
            plan.salvaged = 0;
        }
        plan.target = Some(SalvageTarget {
            id,
            oldest: Position::from_u64(oldest),
            next: Position::from_u64(applied.max(oldest)),
        });
    }
    Ok(plan)
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.target.is_none() && self.segments.is_empty()
    }

    /// Whether the journal has a different id from the one the stores were filled from.
    fn is_foreign_journal(&self, id: JournalId) -> bool {
        self.survey.id.is_some_and(|found| found != id)
    }

    /// Positions that a store has not applied and the journal no longer has.
    fn lost_ranges(&self) -> Vec<Range<u64>> {
        let (oldest, applied) = self.stored;
        let mut lost: Vec<Range<u64>> = Vec::new();
        let survey = &self.survey;
        let (first, end) = match self.target {
            Some(target) if self.is_foreign_journal(target.id) => (oldest, oldest),
            _ if survey.segments == 0 => (oldest, oldest),
            _ => (survey.oldest.as_u64(), survey.end.as_u64()),
        };
        lost.push(oldest..first);
        lost.extend(survey.lost.iter().cloned());
        lost.push(end..applied);
        let lost = lost.into_iter().map(|range| range.start.max(oldest)..range.end);
        lost.filter(|range| !range.is_empty()).collect()
    }

    fn render(&self) -> String {
        let dropped: String = self
            .segments
            .iter()
            .map(|file| {
                format!("the segment {file} is dropped: its files move to warehouse/damaged\n")
            })
            .collect();
        let Some(target) = self.target else {
            if !dropped.is_empty() {
                return dropped;
            }
            return "nothing is to be repaired: the journal is intact and the stores are \
                    consistent\n"
                .to_owned();
        };
        let mut text = dropped + "problems:\n";
        for reason in &self.reasons {
            text += &format!("  {reason}\n");
        }
        text += "actions:\n";
        text += &format!(
            "  a new journal {} takes over {} records that are still to be applied, and continues \
             at position {}\n",
            target.id,
            self.salvaged,
            target.next.as_u64().max(self.survey.next.as_u64()).max(target.oldest.as_u64()),
        );
        text += "  the old journal is moved to repair-<time>, unchanged\n";
        if self.imports {
            text += "  the progress of imports is moved as well: an interrupted import starts at \
                     its first line again, and uuids prevent duplicates\n";
        }
        text += "lost:\n";
        let lost = self.lost_ranges();
        for range in lost.iter().take(RANGES_LISTED_MAX) {
            let extent = if range.end <= self.stored.1 {
                "persons, groups and definitions are applied, rows of events are missing"
            } else {
                "not applied to any store"
            };
            text += &format!("  {}: {extent}\n", format_positions(range.start, range.end));
        }
        match lost.len().saturating_sub(RANGES_LISTED_MAX) {
            0 if lost.is_empty() => text += "  no position that a store has reached\n",
            0 => {}
            more => text += &format!("  and {more} more ranges of positions\n"),
        }
        text += "  events after the journal's end that no store had applied cannot be counted\n";
        if let Some(id) = self.survey.id.filter(|_| self.is_foreign_journal(target.id)) {
            text += &format!(
                "  the {} records of journal {id}, which belong to other stores\n",
                self.survey.records
            );
        }
        text
    }
}

/// Moves old files before it replaces them, so that an interrupted repair can be rolled back.
fn execute_plan(data_dir: &DataDir, plan: &Plan) -> Result<String> {
    let mut text = String::new();
    for file in &plan.segments {
        let quarantined = warehouse::quarantine_segment(&data_dir.warehouse(), file)
            .with_context(|| format!("cannot drop {file}"))?;
        let moved_files: Vec<String> =
            quarantined.kept.iter().map(|file| file.display().to_string()).collect();
        text += &format!(
            "done: dropped {} events of project {}; their files are {}\n",
            quarantined.events,
            quarantined.project,
            moved_files.join(" and ")
        );
    }
    Ok(text + &repair_journal(data_dir, plan)?)
}

fn repair_journal(data_dir: &DataDir, plan: &Plan) -> Result<String> {
    let Some(target) = plan.target else { return Ok(String::new()) };
    let dir = data_dir.path();
    let backup_dir = create_backup_dir(dir)?;
    let (new, journal) = (dir.join(REPAIRED), data_dir.journal());
    write_marker(data_dir, &backup_dir)?;
    let empty = dir.join("journal.none");
    let from = if plan.is_foreign_journal(target.id) { &empty } else { &journal };
    let salvaged = journal::salvage(from, &new, target).context("cannot write the new journal")?;
    let imports = data_dir.imports();
    for (from, name) in [(&journal, "journal"), (&imports, "imports")] {
        if from.is_dir() {
            fs::rename(from, backup_dir.join(name))
                .with_context(|| format!("cannot move {}", from.display()))?;
        }
    }
    sync(&backup_dir)?;
    fs::rename(&new, &journal).context("cannot rename the new journal")?;
    sync(dir)?;
    fs::remove_file(data_dir.repair_marker())?;
    sync(dir)?;
    Ok(format!(
        "done: the journal holds {} records and continues at position {}; the old files are in \
         {}\n",
        salvaged.records,
        salvaged.next,
        backup_dir.display()
    ))
}

/// Durably records the directory of the old files, and whether there is a journal to move.
fn write_marker(data_dir: &DataDir, backup_dir: &Path) -> Result<()> {
    let (dir, marker) = (data_dir.path(), data_dir.repair_marker());
    let name = backup_dir.file_name().unwrap_or_default().to_string_lossy();
    let journal = if data_dir.journal().is_dir() { "" } else { NO_JOURNAL };
    let temporary = marker.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(format!("{name}\n{journal}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, &marker)?;
    sync(dir)
}

/// Rolls an interrupted repair back, so that this one starts from the same state.
fn roll_back_interrupted(data_dir: &DataDir, execute: bool) -> Result<()> {
    let (marker, dir) = (data_dir.repair_marker(), data_dir.path());
    let text = match fs::read_to_string(&marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.with_context(|| format!("cannot read {}", marker.display()))?,
    };
    ensure!(execute, "a repair was interrupted; `hedgerow repair --yes` starts it again");
    let mut lines = text.lines();
    // Earlier releases wrote an absolute path.
    let name = lines.next().and_then(|line| Path::new(line.trim()).file_name());
    let had_journal = lines.next() != Some(NO_JOURNAL);
    let backup_dir = name.map(|name| dir.join(name)).filter(|path| path.is_dir());
    let Some(backup_dir) = backup_dir else {
        bail!(
            "a repair was interrupted, and {} names no directory in {}; nothing was changed: write \
             the name of the directory `repair-<time>` with the old journal into it",
            marker.display(),
            dir.display()
        );
    };
    let new = dir.join(REPAIRED);
    // Renaming the new journal is the last step: after it the repair is complete.
    let moved = !had_journal || backup_dir.join("journal").is_dir();
    let complete = !new.is_dir() && data_dir.journal().is_dir() && moved;
    if !complete {
        for (name, original) in [("journal", data_dir.journal()), ("imports", data_dir.imports())] {
            if backup_dir.join(name).is_dir() && !original.exists() {
                fs::rename(backup_dir.join(name), original)?;
            }
        }
        if new.is_dir() {
            fs::remove_dir_all(&new)?;
        }
    }
    sync(dir)?;
    fs::remove_file(data_dir.repair_marker())?;
    sync(dir)
}

/// Creates `repair-<UTC time>` in the data directory.
fn create_backup_dir(dir: &Path) -> Result<PathBuf> {
    let now = Clock::system().now().to_string();
    let name: String = now.chars().map(|c| if c == ':' { '-' } else { c }).collect();
    let path = dir.join(format!("repair-{name}"));
    fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
    sync(dir)?;
    Ok(path)
}

fn sync(dir: &Path) -> Result<()> {
    Ok(File::open(dir)?.sync_all()?)
}
