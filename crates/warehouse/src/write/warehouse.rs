//! The warehouse handle: open, append, positions, snapshots.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use model::{Clock, ProjectId, Timestamp};

use crate::columns::{Identity, NewRow};
use crate::manifest::store_dir::{self, StoreDir};
use crate::manifest::{DeleteMask, FILE, Manifest};
use crate::memtable::block::BLOCK_ROWS_MAX;
use crate::read::snapshot::Snapshot;
use crate::segment::LiveSegment;
use crate::segment::Segment;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use crate::sink::AppendListener;
use crate::write::backoff::ProjectBackoff;
use crate::write::compact::Rotation;
use crate::write::dedup;
use crate::write::delete::matches_row;
use crate::write::duplicates;
use crate::write::state::{State, Writer};
use crate::{Error, Result};

/// Bytes appended between two checks of the memtables' size: they may exceed their bound by as much.
const APPEND_BYTES_MAX: usize = 16 << 20;

/// The event store of all projects. Cheap to clone; all clones are one store.
///
/// It has no threads of its own: the owner calls [`Warehouse::flush_due`], [`Warehouse::compact`],
/// [`Warehouse::apply_retention`] and [`Warehouse::sweep`] periodically. Appends, flushes,
/// compactions and reads may run concurrently on any threads. All calls block; async callers use
/// `spawn_blocking` or a thread.
#[derive(Clone, Debug)]
pub struct Warehouse {
    pub(crate) inner: Arc<Inner>,
}

struct Listener(AppendListener);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Locks are taken in the order of the fields, which prevents deadlock.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Notified of new rows once they are visible.
    listener: OnceLock<Listener>,
    pub settings: Settings,
    pub clock: Clock,
    pub store_dir: StoreDir,
    pub cache: Arc<Cache>,
    pub next_id: AtomicU64,
    /// Since when anything waits for a flush, in microseconds; `i64::MAX` if nothing does.
    pub waiting_since: AtomicI64,
    pub compacting: Mutex<Rotation>,
    pub flushing: Mutex<()>,
    /// Projects that a flush could not write.
    pub flush_backoff: ProjectBackoff,
    /// When each segment was last scrubbed, in microseconds.
    pub scrubbed: Mutex<Arc<BTreeMap<u64, i64>>>,
    pub writer: Mutex<Writer>,
    pub state: Mutex<State>,
}

/// A live segment of the open format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    pub path: PathBuf,
    /// Rows in the file.
    pub rows: u64,
    pub bytes: u64,
    /// The file of dead rows to skip, a portable roaring bitmap, if there are any.
    pub dead: Option<PathBuf>,
    pub dead_rows: u64,
}

/// The files that hold a project's events up to a journal position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub files: Vec<LiveFile>,
    /// The first journal position that is not in the files.
    pub position: u64,
}

/// What the store holds, over all projects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Current rows, in segments and in memory.
    pub rows: u64,
    /// Of the live segments' files.
    pub disk_bytes: u64,
    pub memory_bytes: u64,
    pub segments: u64,
}

/// Locks and ignores poisoning: guarded state changes in one step after everything that may fail, so
/// it is consistent even after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Warehouse {
    /// Opens the store in `dir`, or creates one. Refuses a store that was filled from another journal.
    pub fn open(dir: &Path, journal: u128, settings: Settings, clock: Clock) -> Result<Warehouse> {
        settings.check()?;
        let store_dir = StoreDir::open(dir, settings.faults.clone())?;
        let manifest = match store_dir.read_manifest()? {
            Some(manifest) => {
                manifest.check_journal(journal, &store_dir.path(FILE))?;
                manifest
            }
            None => {
                store_dir.check_empty()?;
                let manifest = Manifest::new(journal);
                store_dir.prepare_manifest(&manifest)?;
                store_dir.install_manifest()?;
                manifest
            }
        };
        let orphans = store_dir.quarantine_orphans(&manifest.known_files(), clock.now())?;
        if orphans > 0 {
            tracing::info!(
                files = orphans,
                "removed or moved files that the manifest does not name"
            );
        }
        store_dir.sweep_unlisted(clock.now())?;
        let scrubbed = store_dir::read_scrub_times(&store_dir.path(store_dir::SCRUB_TIMES_FILE));
        let cache = Arc::new(Cache::new(settings.cache_bytes_max, settings.purge));
        let mut state = State { applied: manifest.position, ..State::default() };
        let mut durable_dead = HashMap::new();
        for entry in &manifest.segments {
            let path = store_dir.path(&entry.file);
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
                store_dir,
                cache,
                next_id: AtomicU64::new(manifest.next_id),
                waiting_since: AtomicI64::new(i64::MAX),
                compacting: Mutex::default(),
                flushing: Mutex::default(),
                flush_backoff: ProjectBackoff::default(),
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

    /// Appends the rows of all journal records before `reach`, in the order of their positions. They
    /// are visible when this returns, and durable once [`Warehouse::durable_position`] has passed
    /// them. Idempotent: rows at positions that were applied before are skipped, and a duplicate of a
    /// stored event is dropped if its content is equal, and replaces the stored row otherwise.
    ///
    /// Flushes first if the memtables are full (backpressure). Returns how many of the rows were in
    /// segments already.
    pub fn append(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize> {
        for pair in rows.windows(2) {
            if pair[0].position > pair[1].position {
                let why = "it follows a row with a later position";
                return Err(Error::Invalid { position: pair[1].position, why });
            }
        }
        if let Some(row) = rows.iter().find(|row| row.position >= reach) {
            let why = "its position is not before the one the batch reaches";
            return Err(Error::Invalid { position: row.position, why });
        }
        let (mut rest, mut stored) = (rows, 0);
        while !rest.is_empty() {
            let (part, later) = rest.split_at(part_rows(rest));
            rest = later;
            // `reached` must not pass a record whose rows are split between two parts.
            let reached = later.first().map_or(reach, |next| next.position);
            self.flush_if_full()?;
            stored += self.append_part(part, reached)?;
        }
        if rows.is_empty() {
            let writer = lock(&self.inner.writer);
            self.advance_applied(&writer, reach);
        }
        Ok(stored)
    }

    fn advance_applied(&self, _writer: &Writer, reach: u64) {
        let mut state = lock(&self.inner.state);
        if reach > state.applied {
            state.applied = reach;
            self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        }
    }

    /// Registers a listener for rows that became visible, including those that a replay appends
    /// again. It must return quickly. Only the first call has an effect.
    pub fn on_append(&self, listener: impl Fn(&[&NewRow<'_>]) + Send + Sync + 'static) {
        let _ = self.inner.listener.set(Listener(Box::new(listener)));
    }

    fn flush_if_full(&self) -> Result<()> {
        let (rows, bytes) = lock(&self.inner.state).memtable_size();
        let settings = &self.inner.settings;
        if rows >= settings.memory_rows_max || bytes >= settings.memory_bytes_max {
            let flushed = self.flush_for_memory();
            // Rows of a project that cannot be written stay in memory. Appends go on until those rows
            // alone reach the bound.
            let (rows, bytes) = lock(&self.inner.state).memtable_size();
            if rows >= settings.memory_rows_max || bytes >= settings.memory_bytes_max {
                return flushed;
            }
        }
        Ok(())
    }

    fn append_part(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize> {
        let writer = lock(&self.inner.writer);
        let applied = lock(&self.inner.state).applied;
        let mut projects: BTreeMap<ProjectId, Vec<&NewRow<'_>>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.position >= applied) {
            projects.entry(row.project).or_default().push(row);
        }
        let (mut new, mut stored) = (Vec::new(), 0);
        for (project, rows) in projects {
            stored += self.append_to(project, &rows, &writer.manifest.masks, &mut new)?;
        }
        self.advance_applied(&writer, reach);
        drop(writer);
        if let Some(listener) = self.inner.listener.get().filter(|_| !new.is_empty()) {
            (listener.0)(&new);
        }
        Ok(stored)
    }

    /// The caller holds the writer lock, so nothing else changes the project. Adds the rows that are
    /// new or changed to `new`, and returns how many were in segments already.
    fn append_to<'r, 'a>(
        &self,
        project: ProjectId,
        rows: &[&'r NewRow<'a>],
        masks: &[DeleteMask],
        new: &mut Vec<&'r NewRow<'a>>,
    ) -> Result<usize> {
        let identities = identities(rows);
        let segments = lock(&self.inner.state).segments(project);
        let stored = dedup::find_in_readable(&segments, &identities)?;
        let equal = duplicates::unchanged(&segments, rows, &stored)?;
        drop(segments);
        // Set before the append, so that rows before a rejected one are flushed in time too.
        self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        let mut state = lock(&self.inner.state);
        new.reserve(rows.len());
        for (at, (row, identity)) in rows.iter().zip(&identities).enumerate() {
            let deleted = masks.iter().any(|mask| matches_row(mask, row));
            let unchanged = match state.find(project, identity) {
                Some(stored) => stored.has_same_content(row),
                None => equal.contains(&at),
            };
            if unchanged && !deleted {
                continue;
            }
            // A deleted row still replaces the earlier rows of its event.
            if !deleted {
                state.project(project).memtable.push(row, identity);
                new.push(*row);
            }
            state.replace(project, identity, stored[at]);
            if deleted {
                state.project(project).memtable.remove_event(identity);
            }
        }
        Ok(stored.iter().flatten().count())
    }

    /// For callers that free much memory themselves; see [`Settings::purge`].
    pub fn purge_hook(&self) -> fn() {
        self.inner.settings.purge
    }

    /// The first journal position that a crash would lose: where a replay starts.
    pub fn durable_position(&self) -> u64 {
        lock(&self.inner.writer).manifest.position
    }

    /// The first journal position whose rows are not visible.
    pub fn applied_position(&self) -> u64 {
        lock(&self.inner.state).applied
    }

    /// Events that a flush is writing are not counted for its short time.
    pub fn size(&self) -> StoreSize {
        let state = lock(&self.inner.state);
        let (rows, bytes) = state.memtable_size();
        let mut size =
            StoreSize { rows: rows as u64, memory_bytes: bytes as u64, ..StoreSize::default() };
        for live in state.projects.values().flat_map(|project| project.segments.iter()) {
            let entry = &live.segment.entry;
            size.rows += entry.rows.saturating_sub(live.dead.len());
            size.disk_bytes += entry.bytes;
            size.segments += 1;
        }
        size
    }

    /// A consistent view of the project's current events.
    pub fn snapshot(&self, project: ProjectId) -> Snapshot {
        let mut state = lock(&self.inner.state);
        Snapshot::new(project, state.applied, state.segments(project), state.blocks(project))
    }

    /// The durable files of a project, for readers of the open format.
    pub fn files(&self, project: ProjectId) -> Files {
        files_of(&lock(&self.inner.writer).manifest, &self.inner.store_dir.path(""), project)
    }

    pub(crate) fn take_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn live_segment(&self, entry: &crate::manifest::SegmentEntry) -> Arc<Segment> {
        let path = self.inner.store_dir.path(&entry.file);
        Arc::new(Segment::new(entry.clone(), path, self.inner.cache.clone()))
    }
}

pub(crate) fn files_of(manifest: &Manifest, dir: &Path, project: ProjectId) -> Files {
    let segments = manifest.segments.iter().filter(|entry| entry.project == project);
    let files = segments.map(|entry| LiveFile {
        path: dir.join(&entry.file),
        rows: entry.rows,
        bytes: entry.bytes,
        dead: entry.dead.as_ref().map(|dead| dir.join(&dead.file)),
        dead_rows: entry.dead.as_ref().map_or(0, |dead| dead.rows),
    });
    Files { files: files.collect(), position: manifest.position }
}

/// How many rows to append at once: at most a block, within [`APPEND_BYTES_MAX`].
fn part_rows(rows: &[NewRow<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&NewRow<'_>| {
        bytes += row.bytes_max();
        bytes <= APPEND_BYTES_MAX
    };
    rows.iter().take(BLOCK_ROWS_MAX).take_while(fits).count().max(1)
}

/// The identities of rows; equal event names share one allocation.
fn identities(rows: &[&NewRow<'_>]) -> Vec<Identity> {
    let mut names: hashbrown::HashMap<&str, Arc<str>> = hashbrown::HashMap::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let event = names.entry(row.event).or_insert_with(|| row.event.into()).clone();
        all.push(Identity { uuid: row.uuid, event, distinct_no: row.distinct_no });
    }
    all
}

/// `None` if the segment is corrupted or on an unreadable part of the disk: that must not block the
/// append of new events.
pub(crate) fn unless_corrupt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_media_error() => Ok(None),
        other => other.map(Some),
    }
}
