//! The warehouse itself: opening, appending, and what it says about itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use model::{Clock, ProjectId, Timestamp};

use crate::columns::{Identity, NewRow};
use crate::manifest::store_dir::{self, StoreDir};
use crate::manifest::{DeleteMask, FILE, Manifest};
use crate::memtable::block::BLOCK_ROWS_MAX;
use crate::read::row_set::RowSet;
use crate::read::snapshot::Snapshot;
use crate::segment::LiveSegment;
use crate::segment::Segment;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use crate::write::backoff::ProjectBackoff;
use crate::write::compact::Rotation;
use crate::write::dedup;
use crate::write::delete::matches_row;
use crate::write::state::{State, Writer};
use crate::{Error, Result};

/// Copies of stored events in one batch that are compared with what is stored. Beyond that a copy
/// simply replaces the stored one, which says the same thing later.
const COMPARE_MAX: usize = 256;

/// Bytes of rows taken before memory is looked at again: by so much it may pass its bound.
const APPEND_BYTES_MAX: usize = 16 << 20;

/// The event store of all projects. Cheap to clone; all clones are one store.
///
/// Nothing runs on its own: the owner calls [`Warehouse::flush_due`], [`Warehouse::compact`],
/// [`Warehouse::retain`] and [`Warehouse::sweep`] now and then. Appending, flushing, compacting and
/// reading may go on at the same time, on any threads. All calls block; async callers move them
/// to threads of their own.
#[derive(Clone, Debug)]
pub struct Warehouse {
    pub(crate) inner: Arc<Inner>,
}

type Told = dyn Fn(&[&NewRow<'_>]) + Send + Sync;

struct Listener(Box<Told>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Locks are taken in the order of the fields.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Told of new rows once they are visible.
    listener: OnceLock<Listener>,
    pub settings: Settings,
    pub clock: Clock,
    pub folder: StoreDir,
    pub cache: Arc<Cache>,
    pub next_id: AtomicU64,
    /// Since when something waits for a flush, in microseconds; `i64::MAX` when nothing does.
    pub waiting_since: AtomicI64,
    pub compacting: Mutex<Rotation>,
    pub flushing: Mutex<()>,
    /// Projects whose rows a flush could not write.
    pub failing: ProjectBackoff,
    /// When segments were last read from end to end, in microseconds.
    pub scrubbed: Mutex<Arc<BTreeMap<u64, i64>>>,
    pub writer: Mutex<Writer>,
    pub state: Mutex<State>,
}

/// A live file of the open format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    pub path: PathBuf,
    /// Rows in the file.
    pub rows: u64,
    pub bytes: u64,
    /// Numbers of rows to leave out, as a portable roaring bitmap, when there are any.
    pub dead: Option<PathBuf>,
    pub dead_rows: u64,
}

/// The files that are a project's events up to a journal position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub files: Vec<LiveFile>,
    /// The first journal position that is not in the files.
    pub position: u64,
}

/// A lock is poisoned only by a panic in this crate; what it guards is changed in one step behind
/// all that may fail, so it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Warehouse {
    /// Opens the store in `dir`, or makes one. A store that was filled from another journal is
    /// read_error.
    pub fn open(dir: &Path, journal: u128, settings: Settings, clock: Clock) -> Result<Warehouse> {
        settings.check()?;
        let folder = StoreDir::open(dir, settings.faults.clone())?;
        let manifest = match folder.read_manifest()? {
            Some(manifest) => {
                manifest.check_journal(journal, &folder.path(FILE))?;
                manifest
            }
            None => {
                folder.check_empty()?;
                let manifest = Manifest::new(journal);
                folder.prepare_manifest(&manifest)?;
                folder.install_manifest()?;
                manifest
            }
        };
        let orphans = folder.quarantine_orphans(&manifest.known_files(), clock.now())?;
        if orphans > 0 {
            tracing::info!(files = orphans, "set files of unfinished changes aside");
        }
        folder.sweep_unlisted(clock.now())?;
        let scrubbed = store_dir::read_scrub_times(&folder.path(store_dir::SCRUB_TIMES_FILE));
        let cache = Arc::new(Cache::new(settings.cache_bytes_max));
        let mut state = State { applied: manifest.position, ..State::default() };
        let mut durable_dead = HashMap::new();
        for entry in &manifest.segments {
            let path = folder.path(&entry.file);
            if !path.is_file() {
                return Err(Error::corrupt(&path, "the manifest names it, but it is missing"));
            }
            let dead = Arc::new(store_dir::read_dead(dir, entry)?);
            durable_dead.insert(entry.id, Arc::clone(&dead));
            let segment = Arc::new(Segment::new(entry.clone(), path, cache.clone()));
            state.change_segments(entry.project, |all| all.push(LiveSegment { segment, dead }));
        }
        Ok(Warehouse {
            inner: Arc::new(Inner {
                listener: OnceLock::new(),
                settings,
                clock,
                folder,
                cache,
                next_id: AtomicU64::new(manifest.next_id),
                waiting_since: AtomicI64::new(i64::MAX),
                compacting: Mutex::default(),
                flushing: Mutex::default(),
                failing: ProjectBackoff::default(),
                scrubbed: Mutex::new(Arc::new(scrubbed)),
                writer: Mutex::new(Writer {
                    manifest,
                    durable_dead,
                    pinned: Vec::new(),
                    unsettled: Vec::new(),
                }),
                state: Mutex::new(state),
            }),
        })
    }

    /// Takes the rows of all journal records before `reach`, in the order of their positions. They
    /// are visible when this returns, and durable once [`Warehouse::durable_position`] is behind
    /// them. Rows of positions that were applied before are skipped; a copy of an event that is
    /// there already is dropped when it says the same, and replaces it otherwise.
    ///
    /// When memory is full, this waits for a flush.
    pub fn append(&self, rows: &[NewRow<'_>], reach: u64) -> Result<()> {
        for pair in rows.windows(2) {
            if pair[0].position > pair[1].position {
                let why = "it comes behind a row of a later position";
                return Err(Error::Invalid { position: pair[1].position, why });
            }
        }
        if let Some(row) = rows.iter().find(|row| row.position >= reach) {
            let why = "its position is not before the one the batch reaches";
            return Err(Error::Invalid { position: row.position, why });
        }
        let mut rest = rows;
        while !rest.is_empty() {
            let (some, behind) = rest.split_at(part_rows(rest));
            rest = behind;
            // Rows of one record stay together, or the second half would look applied already.
            let reached = behind.first().map_or(reach, |next| next.position);
            self.make_room()?;
            self.append_some(some, reached)?;
        }
        if rows.is_empty() {
            let writer = lock(&self.inner.writer);
            self.reached(&writer, reach);
        }
        Ok(())
    }

    fn reached(&self, _writer: &Writer, reach: u64) {
        let mut state = lock(&self.inner.state);
        if reach > state.applied {
            state.applied = reach;
            self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        }
    }

    /// From now on `listener` is told of rows that were appended and are visible, also of those
    /// that a replay brings again. It must be quick; only the first one is taken.
    pub fn on_append(&self, listener: impl Fn(&[&NewRow<'_>]) + Send + Sync + 'static) {
        let _ = self.inner.listener.set(Listener(Box::new(listener)));
    }

    fn make_room(&self) -> Result<()> {
        let (rows, bytes) = lock(&self.inner.state).memory_size();
        let settings = &self.inner.settings;
        if rows >= settings.memory_rows_max || bytes >= settings.memory_bytes_max {
            let flushed = self.flush_for_room();
            // The rows of a project that cannot be written stay. They are in nobody's way until
            // they alone are too many.
            let (rows, bytes) = lock(&self.inner.state).memory_size();
            if rows >= settings.memory_rows_max || bytes >= settings.memory_bytes_max {
                return flushed;
            }
        }
        Ok(())
    }

    fn append_some(&self, rows: &[NewRow<'_>], reach: u64) -> Result<()> {
        let writer = lock(&self.inner.writer);
        let applied = lock(&self.inner.state).applied;
        let mut projects: BTreeMap<ProjectId, Vec<&NewRow<'_>>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.position >= applied) {
            projects.entry(row.project).or_default().push(row);
        }
        let mut new = Vec::new();
        for (project, rows) in projects {
            new.extend(self.append_to(project, &rows, &writer.manifest.masks)?);
        }
        self.reached(&writer, reach);
        drop(writer);
        if let Some(listener) = self.inner.listener.get().filter(|_| !new.is_empty()) {
            (listener.0)(&new);
        }
        Ok(())
    }

    /// The writer is held, so only this changes the project meanwhile. Returns the rows that were
    /// not there before.
    fn append_to<'r, 'a>(
        &self,
        project: ProjectId,
        rows: &[&'r NewRow<'a>],
        masks: &[DeleteMask],
    ) -> Result<Vec<&'r NewRow<'a>>> {
        let identities = identities(rows);
        let segments = lock(&self.inner.state).segments(project);
        let stored = dedup::find_in_readable(&segments, &identities)?;
        let equal = equal_copies(&segments, rows, &stored)?;
        drop(segments);
        // Rows that stay behind a read_error one wait too.
        self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        let mut state = lock(&self.inner.state);
        let mut new = Vec::with_capacity(rows.len());
        for (at, (row, identity)) in rows.iter().zip(&identities).enumerate() {
            let deleted = masks.iter().any(|mask| matches_row(mask, row));
            let known = match state.find(project, identity) {
                Some(known) => known.has_same_content(row),
                None => equal.contains(&at),
            };
            if known && !deleted {
                continue;
            }
            // A copy that was deleted since still replaces the ones before it.
            if !deleted {
                state.project(project).memory.push(row, identity);
                new.push(*row);
            }
            state.replace(project, identity, stored[at]);
            if deleted {
                state.project(project).memory.forget(identity);
            }
        }
        Ok(new)
    }

    /// The first journal position that a crash would lose from here: where to replay from.
    pub fn durable_position(&self) -> u64 {
        lock(&self.inner.writer).manifest.position
    }

    /// The first journal position whose rows are not visible.
    pub fn applied_position(&self) -> u64 {
        lock(&self.inner.state).applied
    }

    /// The project's events at this moment. It stays as it is, whatever happens to the store.
    pub fn snapshot(&self, project: ProjectId) -> Snapshot {
        let mut state = lock(&self.inner.state);
        Snapshot::new(project, state.applied, state.segments(project), state.blocks(project))
    }

    /// The durable files of a project, for readers of the open format.
    pub fn files(&self, project: ProjectId) -> Files {
        files_of(&lock(&self.inner.writer).manifest, &self.inner.folder.path(""), project)
    }

    pub(crate) fn take_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn live_segment(&self, entry: &crate::manifest::SegmentEntry) -> Arc<Segment> {
        let path = self.inner.folder.path(&entry.file);
        Arc::new(Segment::new(entry.clone(), path, self.inner.cache.clone()))
    }
}

pub(crate) fn files_of(manifest: &Manifest, dir: &Path, project: ProjectId) -> Files {
    let own = manifest.segments.iter().filter(|entry| entry.project == project);
    let files = own.map(|entry| LiveFile {
        path: dir.join(&entry.file),
        rows: entry.rows,
        bytes: entry.bytes,
        dead: entry.dead.as_ref().map(|dead| dir.join(&dead.file)),
        dead_rows: entry.dead.as_ref().map_or(0, |dead| dead.rows),
    });
    Files { files: files.collect(), position: manifest.position }
}

/// How many of the rows are taken at once: a block's worth, within [`APPEND_BYTES_MAX`].
fn part_rows(rows: &[NewRow<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&NewRow<'_>| {
        bytes += row.bytes_max();
        bytes <= APPEND_BYTES_MAX
    };
    rows.iter().take(BLOCK_ROWS_MAX).take_while(fits).count().max(1)
}

/// Rows of one batch share the names of their events.
fn identities(rows: &[&NewRow<'_>]) -> Vec<Identity> {
    let mut names: hashbrown::HashMap<&str, Arc<str>> = hashbrown::HashMap::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let event = names.entry(row.event).or_insert_with(|| row.event.into()).clone();
        all.push(Identity { uuid: row.uuid, event, distinct_no: row.distinct_no });
    }
    all
}

/// `None` when it is a segment that is damaged, or on a part of the disk that cannot be read: new
/// events are stored whatever became of old ones.
pub(crate) fn unless_corrupt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_media_error() => Ok(None),
        other => other.map(Some),
    }
}

/// Which rows say the same as their stored copies.
fn equal_copies(
    segments: &[LiveSegment],
    rows: &[&NewRow<'_>],
    stored: &[Option<dedup::RowLocation>],
) -> Result<HashSet<usize>> {
    let places = || stored.iter().enumerate().filter_map(|(at, place)| Some((at, (*place)?)));
    let mut equal = HashSet::new();
    if places().count() > COMPARE_MAX {
        return Ok(equal);
    }
    let mut by_group: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for (at, (index, row)) in places() {
        let segment = &segments[index].segment;
        let group = segment.group_of(row as usize)?;
        let row = row as usize - segment.group_rows(group)?.start;
        by_group.entry((index, group)).or_default().push((row, at));
    }
    for ((index, group), found) in by_group {
        let live = segments[index].clone();
        let range = live.segment.group_rows(group)?;
        let row_set = RowSet::RowGroup { live, group, rows: range };
        let places: Vec<usize> = found.iter().map(|(row, _)| *row).collect();
        let copies = segments[index].segment.catch_decoder_panics(|| row_set.event_rows(&places));
        let Some(copies) = unless_corrupt(copies)? else { continue };
        for (stored, (_, at)) in copies.iter().zip(&found) {
            if stored.has_same_content(rows[*at]) {
                equal.insert(*at);
            }
        }
    }
    Ok(equal)
}
