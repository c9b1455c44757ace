//! The identity log: the changes of persons and groups of every batch, on the local disk.
//!
//! A person index is read from a checkpoint and brought up to date with the changes since. The
//! catalog stays the truth: where the log has a [`Gap`], the person index is rebuilt from it.
//!
//! An entry is appended before its batch commits, so it counts only once it is confirmed: the commit
//! succeeded, or the next batch starts where the entry ends. If the next batch starts where the entry
//! starts, the commit failed and the entry is truncated. Opening the log compares it with the
//! catalog's position in the same way.
//!
//! An edit of all persons commits in chunks that do not advance the position. Whether such a chunk
//! is committed, or missing from the log, cannot be told from positions. So it is synced before its
//! commit, and if the outcome is not known, the log starts over.
//!
//! A log that starts over gets a new id. A checkpoint names the log and the position it was taken at
//! ([`LogPosition`]) and is of no use to another log. One that is ahead of the log when it is opened
//! describes commits that the catalog has lost, and must be discarded then.

mod codec;
mod format;
mod reader;
mod segments;

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::IngestBatch;
use model::ProjectId;
use uuid::Uuid;

pub use reader::Changes;

use format::{NewEntry, SEGMENT_HEADER_BYTES, SegmentHeader};
use segments::Segment;

/// In the data directory.
const DIR: &str = "people/log";
/// Size at which the next segment is started.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Size at which the oldest segments are removed, whether released or not. Rebuilding the person
/// indexes costs less than reading more changes than this.
const LOG_BYTES_MAX: u64 = 4 << 30;

/// The changes since a position are not in the log: the person index must be rebuilt from the
/// catalog.
#[derive(Debug, thiserror::Error)]
#[error("the identity log has a gap: {0}")]
pub struct Gap(String);

impl Gap {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn unfinished_edit() -> Self {
        Self::new("the last chunk of an edit may or may not be committed")
    }
}

impl From<io::Error> for Gap {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A position in one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The log's id.
    pub log: u128,
    pub position: u64,
}

/// The log of one data directory, shared by the thread that ingests and the queries. No method waits
/// for a reader.
#[derive(Debug)]
pub struct IdentityLog {
    dir: PathBuf,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    segment_bytes: u64,
    log_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first; empty while the log is broken.
    segments: Vec<Segment>,
    /// The entry after the last confirmed one.
    prepared: Option<Prepared>,
    /// Since the last append that succeeded.
    has_warned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Prepared {
    reach: u64,
    /// The offset after the entry.
    end: u64,
    is_chunk: bool,
    is_unknown: bool,
}

impl IdentityLog {
    /// Opens the log in a data directory at the catalog's journal id and position
    /// (`catalog.ingest().offset()`). Later entries are truncated: their commit did not happen. A
    /// log that does not lead up to the position starts over there, empty. A directory that cannot
    /// be written gives a broken log, which the next batch tries to start again.
    pub fn open(data_dir: &Path, catalog: Option<(u128, u64)>) -> Self {
        let limits = Limits { segment_bytes: SEGMENT_BYTES, log_bytes: LOG_BYTES_MAX };
        Self::open_with(data_dir, catalog, limits)
    }

    fn open_with(data_dir: &Path, catalog: Option<(u128, u64)>, limits: Limits) -> Self {
        let log = Self { dir: data_dir.join(DIR), limits, state: Mutex::default() };
        let Some((journal, position)) = catalog else { return log };
        let mut state = log.lock();
        match segments::recover(&log.dir, journal, position) {
            Ok(Some(segments)) => state.segments = segments,
            Ok(None) => log.restart_or_break(&mut state, journal, position),
            Err(Gap(reason)) => {
                tracing::warn!(
                    reason,
                    "identity log starts over, persons are read from the catalog"
                );
                log.restart_or_break(&mut state, journal, position);
            }
        }
        drop(state);
        log
    }

    /// Appends a batch that is about to be committed. Never fails: if the batch cannot be appended,
    /// the log is broken until the next one starts it over.
    pub fn prepare(&self, batch: &IngestBatch) {
        let entry = NewEntry::encode(batch);
        let mut state = self.lock();
        if let Err(gap) = entry.and_then(|entry| self.append(&mut state, entry)) {
            self.break_off(&mut state, &gap);
        }
    }

    /// Confirms the prepared batch: its commit succeeded.
    pub fn committed(&self) {
        let mut state = self.lock();
        if let Some(prepared) = state.prepared.take_if(|prepared| !prepared.is_unknown) {
            state.confirm(prepared);
        }
    }

    /// The outcome of the prepared batch's commit is unknown: the next batch tells.
    pub fn unknown(&self) {
        if let Some(prepared) = &mut self.lock().prepared {
            prepared.is_unknown = true;
        }
    }

    /// A project's confirmed changes from a position on, which must be one where a batch starts.
    /// Chunks of an edit at that position are among them, whether or not the caller has them already:
    /// applying them again changes nothing.
    pub fn changes(&self, project: ProjectId, from: LogPosition) -> Result<Changes, Gap> {
        let (extents, end) = {
            let state = self.lock();
            let (start, end) = state.range().ok_or_else(|| Gap::new("it is broken"))?;
            if start.log != from.log {
                return Err(Gap::new("it has started over"));
            }
            if !(start.position..=end.position).contains(&from.position) {
                let (from, start, end) = (from.position, start.position, end.position);
                return Err(Gap::new(format!("{from} is outside of {start} to {end}")));
            }
            let after =
                state.segments.partition_point(|segment| segment.header.first <= from.position);
            let holding = &state.segments[after.saturating_sub(1)..];
            (holding.iter().map(Segment::extent).collect(), end.position)
        };
        Changes::seek(project, extents, from.position, end)
    }

    /// The first position that is covered; none while the log is broken.
    pub fn start(&self) -> Option<LogPosition> {
        self.lock().range().map(|(start, _)| start)
    }

    /// The first position that is not covered; none while the log is broken.
    pub fn end(&self) -> Option<LogPosition> {
        self.lock().range().map(|(_, end)| end)
    }

    /// Makes all confirmed entries durable; returns the end of those.
    pub fn sync(&self) -> io::Result<Option<LogPosition>> {
        let (files, end) = {
            let state = self.lock();
            let Some((_, end)) = state.range() else { return Ok(None) };
            let unsynced = state.segments.iter().filter(|segment| !segment.is_synced);
            (unsynced.map(|segment| segment.file.clone()).collect::<Vec<_>>(), end)
        };
        files.iter().try_for_each(|file| file.sync_data())?;
        segments::sync_dir(&self.dir)?;
        let mut state = self.lock();
        // The last one of those is still appended to.
        for file in files.iter().rev().skip(1) {
            let same = |segment: &&mut Segment| Arc::ptr_eq(&segment.file, file);
            if let Some(segment) = state.segments.iter_mut().find(same) {
                segment.is_synced = true;
            }
        }
        Ok(Some(end))
    }

    /// Removes the segments that end at or before a position, except the one that is appended to.
    pub fn release(&self, position: u64) -> io::Result<()> {
        let mut state = self.lock();
        while state.segments.get(1).is_some_and(|next| next.header.first <= position) {
            self.remove_oldest(&mut state)?;
        }
        Ok(())
    }

    fn append(&self, state: &mut State, mut entry: NewEntry) -> Result<(), Gap> {
        if let Err(Gap(reason)) = state.continue_at(entry.journal, entry.from) {
            if !state.segments.is_empty() {
                tracing::warn!(reason, "identity log starts over");
            }
            self.restart(state, entry.journal, entry.from)?;
        }
        if entry.is_chunk() && !entry.has_changes() {
            return Ok(());
        }
        self.make_room(state, &entry)?;
        let Some(last) = state.segments.last() else { return Err(Gap::new("it is broken")) };
        last.file.write_all_at(entry.placed(last.header.salt(), last.bytes), last.bytes)?;
        if entry.is_chunk() {
            last.file.sync_data()?;
            segments::sync_dir(&self.dir)?;
        }
        let (reach, end) = (entry.reach, last.bytes + entry.len());
        let is_chunk = entry.is_chunk();
        state.prepared = Some(Prepared { reach, end, is_chunk, is_unknown: false });
        state.has_warned = false;
        Ok(())
    }

    /// Starts the next segment if the last one is full, and removes the oldest ones past the limit.
    fn make_room(&self, state: &mut State, entry: &NewEntry) -> Result<(), Gap> {
        if let Some(last) = state.segments.last()
            && last.bytes > SEGMENT_HEADER_BYTES as u64
            && last.bytes + entry.len() > self.limits.segment_bytes
            && !last.ends_in_chunk
        {
            let header = SegmentHeader { first: last.end, ..last.header };
            state.segments.push(Segment::create(&self.dir, header)?);
        }
        while state.bytes() + entry.len() > self.limits.log_bytes {
            if state.segments.len() <= 1 {
                return Err(Gap::new("it is larger than LOG_BYTES_MAX"));
            }
            self.remove_oldest(state)?;
        }
        Ok(())
    }

    fn remove_oldest(&self, state: &mut State) -> io::Result<()> {
        if let Some(oldest) = state.segments.first() {
            oldest.remove(&self.dir)?;
            state.segments.remove(0);
        }
        Ok(())
    }

    /// Replaces the log by an empty one, with a new id.
    fn restart(&self, state: &mut State, journal: u128, position: u64) -> Result<(), Gap> {
        state.prepared = None;
        state.segments.clear();
        std::fs::create_dir_all(&self.dir)?;
        segments::remove_all(&self.dir)?;
        let log = Uuid::new_v4().as_u128();
        let header = SegmentHeader { log, journal, first: position };
        state.segments.push(Segment::create(&self.dir, header)?);
        Ok(())
    }

    fn restart_or_break(&self, state: &mut State, journal: u128, position: u64) {
        if let Err(gap) = self.restart(state, journal, position) {
            self.break_off(state, &gap);
        }
    }

    /// Removes the log: a batch is missing from it.
    fn break_off(&self, state: &mut State, gap: &Gap) {
        state.prepared = None;
        state.segments.clear();
        // Also frees disk space, the lack of which is the likely reason.
        let removed = segments::remove_all(&self.dir);
        if !state.has_warned {
            state.has_warned = true;
            let removal = removed.err().map(|error| error.to_string());
            tracing::warn!(reason = gap.0, removal, "identity log cannot be written");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Confirms or truncates the prepared entry, given where the next batch starts. Fails if that is
    /// not where the log ends.
    fn continue_at(&mut self, journal: u128, from: u64) -> Result<(), Gap> {
        match self.prepared.take() {
            Some(prepared) if prepared.is_chunk => {
                return Err(Gap::unfinished_edit());
            }
            Some(prepared) if prepared.reach == from => self.confirm(prepared),
            Some(_) => self.segments.last().map_or(Ok(()), Segment::truncate)?,
            None => {}
        }
        match self.segments.last() {
            Some(last) if last.header.journal == journal && last.end == from => Ok(()),
            Some(last) => {
                Err(Gap::new(format!("it ends at {}, a batch starts at {from}", last.end)))
            }
            None => Err(Gap::new("it is broken")),
        }
    }

    fn confirm(&mut self, prepared: Prepared) {
        if let Some(last) = self.segments.last_mut() {
            last.bytes = prepared.end;
            last.end = prepared.reach;
            last.ends_in_chunk = prepared.is_chunk;
        }
    }

    /// Start and end of what is confirmed.
    fn range(&self) -> Option<(LogPosition, LogPosition)> {
        let (first, last) = (self.segments.first()?, self.segments.last()?);
        let log = first.header.log;
        let start = LogPosition { log, position: first.header.first };
        Some((start, LogPosition { log, position: last.end }))
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
