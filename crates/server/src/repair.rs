//! `hedgerow repair`: makes stores that contradict each other agree again, as far as that is sound.
//!
//! Everything it does is to the journal: what can be read of it is written into a new one at the
//! same positions, which begins where the warehouse stands and goes on behind both stores. So no
//! new event can be mistaken for one that was applied, and no record that still is to be applied is
//! lost. The catalog and the rows of the warehouse stay as they are, since rows refer to numbers that
//! only the catalog knows. What it replaces is moved aside, never deleted.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use catalog::{Catalog, Location};
use clap::ArgMatches;
use journal::{JournalId, Position, Survey, Wanted};
use model::Clock;

use crate::cli::say;
use crate::folder::{self, Folder};
use crate::settings::Settings;
use crate::stores::{self, Disagreement, Positions, span};
use crate::verify;

const MANIFEST: &str = "a manifest cannot be made again from Parquet files, which do not say which of \
    them were merged into others, which rows were deleted, and how far the journal was applied";
/// The new journal before it has its name.
const REPAIRED: &str = "journal.repaired";
/// The second line of the marker when there was none to move.
const NO_JOURNAL: &str = "no journal";
/// Ranges of positions that are named one by one.
const RANGES_TOLD_MAX: usize = 10;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let dir = &settings.data_dir;
    ensure!(dir.is_dir(), "there is no data folder {}", dir.display());
    let folder = Folder::own_for_repair(dir)?;
    stores::check_versions(&folder)?;
    let act = given.get_flag("yes") && !given.get_flag("dry_run");
    go_back_to_the_start(&folder, act)?;
    let catalog = look_into_catalog(&folder, settings).await?;
    // On PostgreSQL a server may run elsewhere.
    catalog.keep().await.context("cannot own the catalog")?;
    let offset = catalog.ingest_offset().await.context("cannot read the catalog")?;
    let mut plan = plan(&folder, offset)?;
    plan.segments = segments(&folder, given)?;
    say(&plan.told())?;
    if !plan.is_empty() {
        if act {
            say(&do_it(&folder, &plan)?)?;
        } else {
            say("nothing was changed; the same command with `--yes` does it\n")?;
        }
    }
    catalog.close().await;
    Ok(())
}

async fn look_into_catalog(folder: &Folder, settings: &Settings) -> Result<Catalog> {
    let file = folder.catalog_file();
    if let Location::Sqlite(file) = folder::location(settings, &file) {
        let restore = "a catalog cannot be made again from events; restore a backup";
        ensure!(file.is_file(), "there is no {}; {restore}", file.display());
        let checked = catalog::check_file(file)
            .with_context(|| format!("cannot read {}; {restore}", file.display()))?;
        if let Some(fault) = checked.faults.first() {
            bail!("{} is damaged: {fault}; {restore}", file.display());
        }
    }
    let location = folder::location(settings, &file);
    Catalog::inspect(location, Clock::system()).await.context("cannot open the catalog")
}

/// What is to be done, and why.
struct Plan {
    reasons: Vec<String>,
    survey: Survey,
    wanted: Option<Wanted>,
    /// Records that the new journal takes over.
    kept: u64,
    /// Up to where both stores, and the catalog alone, have the journal.
    stored: (u64, u64),
    imports: bool,
    /// Files of the warehouse that are given up.
    segments: BTreeSet<String>,
}

/// Those that were named, and all that are damaged if that was asked for.
fn segments(folder: &Folder, given: &ArgMatches) -> Result<BTreeSet<String>> {
    let named = given.get_many::<String>("drop_segment").into_iter().flatten();
    let mut segments: BTreeSet<String> = named.cloned().collect();
    if given.get_flag("drop_damaged") {
        let found = warehouse::verify(&folder.warehouse(), &mut |_| {})?;
        segments.extend(found.damage.into_iter().map(|damage| damage.segment));
        // What a disk or a permission hides may be whole.
        for one in found.unreadable {
            let (file, what) = (one.file.display(), one.what);
            say(&format!("{file} cannot be read, and is not given up: {what}\n"))?;
        }
    }
    Ok(segments)
}

fn plan(folder: &Folder, catalog: Option<(u128, u64)>) -> Result<Plan> {
    let warehouse = warehouse::stand(&folder.warehouse()).context(MANIFEST)?;
    let mut positions = Positions::new(catalog, warehouse);
    let ids = [positions.catalog, positions.warehouse];
    let known = ids.into_iter().flatten().map(|(id, _)| id).next();
    let oldest = positions.warehouse.map_or(1, |(_, position)| position);
    let applied = positions.catalog.map_or(1, |(_, position)| position);
    let mut kept = 0;
    let survey = journal::survey(&folder.journal(), known, |position, _| {
        kept += u64::from(position.as_u64() >= oldest);
        Ok(())
    })?;
    positions.journal = verify::stand(&survey);
    let disagreements = positions.disagreements();
    if let Some(found) = disagreements.iter().find(|found| !found.is_repairable()) {
        let why = match found {
            Disagreement::NoWarehouse { .. } => MANIFEST,
            _ => "that cannot be repaired",
        };
        bail!("{found}; {why}: {}", found.remedy());
    }
    let mut reasons: Vec<String> = survey.faults.iter().map(ToString::to_string).collect();
    reasons.extend(disagreements.iter().map(ToString::to_string));
    let mut plan = Plan {
        imports: !reasons.is_empty() && folder.imports().is_dir(),
        reasons,
        survey,
        wanted: None,
        kept,
        stored: (oldest, applied),
        segments: BTreeSet::new(),
    };
    if !plan.reasons.is_empty() {
        let id = known.or(plan.survey.id);
        let id = id.context("no header of the journal can be read; restore a backup")?;
        if plan.is_of_another_journal(id) {
            plan.kept = 0;
        }
        plan.wanted = Some(Wanted {
            id,
            oldest: Position::from_u64(oldest),
            next: Position::from_u64(applied.max(oldest)),
        });
    }
    Ok(plan)
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.wanted.is_none() && self.segments.is_empty()
    }

    fn is_of_another_journal(&self, id: JournalId) -> bool {
        self.survey.id.is_some_and(|found| found != id)
    }

    /// Positions that a store lacks and the journal no longer has.
    fn lost(&self) -> Vec<Range<u64>> {
        let (oldest, applied) = self.stored;
        let mut lost: Vec<Range<u64>> = Vec::new();
        let survey = &self.survey;
        let (first, end) = match self.wanted {
            Some(wanted) if self.is_of_another_journal(wanted.id) => (oldest, oldest),
            _ if survey.segments == 0 => (oldest, oldest),
            _ => (survey.oldest.as_u64(), survey.end.as_u64()),
        };
        lost.push(oldest..first);
        lost.extend(survey.lost.iter().cloned());
        lost.push(end..applied);
        let lost = lost.into_iter().map(|range| range.start.max(oldest)..range.end);
        lost.filter(|range| !range.is_empty()).collect()
    }

    fn told(&self) -> String {
        let dropped: String = self
            .segments
            .iter()
            .map(|file| {
                format!("the segment {file} is given up: its files move to warehouse/damaged\n")
            })
            .collect();
        let Some(wanted) = self.wanted else {
            if !dropped.is_empty() {
                return dropped;
            }
            return "nothing is to be repaired: the journal is whole, and the stores agree\n"
                .to_owned();
        };
        let mut text = dropped + "what is wrong:\n";
        for reason in &self.reasons {
            text += &format!("  {reason}\n");
        }
        text += "what is done about it:\n";
        text += &format!(
            "  a new journal {} takes over {} records that are still to be applied, and goes on at \
             position {}\n",
            wanted.id,
            self.kept,
            wanted.next.as_u64().max(self.survey.next.as_u64()).max(wanted.oldest.as_u64()),
        );
        text += "  the old journal is moved aside as it is\n";
        if self.imports {
            text += "  the progress of imports is moved aside: an import that was cut short begins \
                     at its first line again, and each event is there once\n";
        }
        text += "what is lost:\n";
        let lost = self.lost();
        for range in lost.iter().take(RANGES_TOLD_MAX) {
            let where_to = if range.end <= self.stored.1 {
                "persons, groups and definitions have them, rows of events are missing"
            } else {
                "no store has them"
            };
            text += &format!("  {}: {where_to}\n", span(range.start, range.end));
        }
        match lost.len().saturating_sub(RANGES_TOLD_MAX) {
            0 if lost.is_empty() => text += "  no position that a store has reached\n",
            0 => {}
            more => text += &format!("  and {more} more ranges of positions\n"),
        }
        text += "  events that stood behind the journal's end and that no store had applied cannot \
                 be counted\n";
        if let Some(id) = self.survey.id.filter(|_| self.is_of_another_journal(wanted.id)) {
            text += &format!(
                "  the {} records of journal {id}, which are none of these stores'\n",
                self.survey.records
            );
        }
        text
    }
}

/// What is moved aside first, so that a repair which is cut short can begin again.
fn do_it(folder: &Folder, plan: &Plan) -> Result<String> {
    let mut text = String::new();
    for file in &plan.segments {
        let aside = warehouse::set_aside(&folder.warehouse(), file)
            .with_context(|| format!("cannot give up {file}"))?;
        let kept: Vec<String> = aside.kept.iter().map(|file| file.display().to_string()).collect();
        text += &format!(
            "done: {} events of project {} were given up; their files are {}\n",
            aside.events,
            aside.project,
            kept.join(" and ")
        );
    }
    Ok(text + &repair_journal(folder, plan)?)
}

fn repair_journal(folder: &Folder, plan: &Plan) -> Result<String> {
    let Some(wanted) = plan.wanted else { return Ok(String::new()) };
    let dir = folder.path();
    let kept = new_folder(dir)?;
    let (new, journal) = (dir.join(REPAIRED), folder.journal());
    mark(folder, &kept)?;
    let empty = dir.join("journal.none");
    let from = if plan.is_of_another_journal(wanted.id) { &empty } else { &journal };
    let made = journal::salvage(from, &new, wanted).context("cannot write the new journal")?;
    let imports = folder.imports();
    for (from, name) in [(&journal, "journal"), (&imports, "imports")] {
        if from.is_dir() {
            fs::rename(from, kept.join(name))
                .with_context(|| format!("cannot move {} aside", from.display()))?;
        }
    }
    sync(&kept)?;
    fs::rename(&new, &journal).context("cannot put the new journal in its place")?;
    sync(dir)?;
    fs::remove_file(folder.repairing())?;
    sync(dir)?;
    Ok(format!(
        "done: the journal holds {} records and goes on at position {}; what was there before is \
         in {}\n",
        made.records,
        made.next,
        kept.display()
    ))
}

/// Notes durably where things are moved to, and whether there is a journal to be moved.
fn mark(folder: &Folder, kept: &Path) -> Result<()> {
    let (dir, marker) = (folder.path(), folder.repairing());
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    let journal = if folder.journal().is_dir() { "" } else { NO_JOURNAL };
    let aside = marker.with_extension("new");
    let mut file = File::create(&aside)?;
    file.write_all(format!("{name}\n{journal}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, &marker)?;
    sync(dir)
}

/// A repair that was cut short is undone, so that this one sees what that one saw.
fn go_back_to_the_start(folder: &Folder, act: bool) -> Result<()> {
    let (marker, dir) = (folder.repairing(), folder.path());
    let text = match fs::read_to_string(&marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.with_context(|| format!("cannot read {}", marker.display()))?,
    };
    ensure!(act, "a repair was cut short; `hedgerow repair --yes` begins it again");
    let mut lines = text.lines();
    // Earlier versions noted a whole path.
    let name = lines.next().and_then(|line| Path::new(line.trim()).file_name());
    let had_journal = lines.next() != Some(NO_JOURNAL);
    let kept = name.map(|name| dir.join(name)).filter(|kept| kept.is_dir());
    let Some(kept) = kept else {
        bail!(
            "a repair was cut short, and {} names no folder in {}; nothing was changed: write the \
             name of the folder `repair-<time>` into it that has the old journal",
            marker.display(),
            dir.display()
        );
    };
    let new = dir.join(REPAIRED);
    // The new journal has its name last: where it has one, everything was done.
    let moved = !had_journal || kept.join("journal").is_dir();
    let done = !new.is_dir() && folder.journal().is_dir() && moved;
    if !done {
        for (name, place) in [("journal", folder.journal()), ("imports", folder.imports())] {
            if kept.join(name).is_dir() && !place.exists() {
                fs::rename(kept.join(name), place)?;
            }
        }
        if new.is_dir() {
            fs::remove_dir_all(&new)?;
        }
    }
    sync(dir)?;
    fs::remove_file(folder.repairing())?;
    sync(dir)
}

/// `repair-<UTC time>` in the data folder.
fn new_folder(dir: &Path) -> Result<PathBuf> {
    let now = Clock::system().now().to_string();
    let name: String = now.chars().map(|c| if c == ':' { '-' } else { c }).collect();
    let path = dir.join(format!("repair-{name}"));
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    sync(dir)?;
    Ok(path)
}

fn sync(folder: &Path) -> Result<()> {
    Ok(File::open(folder)?.sync_all()?)
}
