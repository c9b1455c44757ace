//! Reads segments again that nobody asked for in a while, so that damage is found while a backup or
//! another copy still has what was lost.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use model::ProjectId;

use crate::manifest::SegmentEntry;
use crate::manifest::store_dir;
use crate::manifest::store_dir::SCRUB_TIMES_FILE;
use crate::segment::LiveSegment;
use crate::segment::Segment;
use crate::segment::integrity::corrupt_ranges;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// A segment that was read from end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOutcome {
    /// Below the warehouse's folder.
    pub file: String,
    pub bytes: u64,
    pub damaged: bool,
}

/// What is wrong with the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Segments that were found damaged since the start, and what to do about each.
    pub damaged: Vec<String>,
    /// Projects whose events a flush could not write, and why. They are in memory and in the journal.
    pub failing: Vec<(ProjectId, String)>,
}

impl Warehouse {
    pub fn health(&self) -> Health {
        let live = self.live_segments().iter().map(|live| live.segment.entry.id).collect();
        Health { damaged: self.inner.cache.damaged(&live), failing: self.inner.failing.all() }
    }

    /// Compares the checksums of the segment that was read longest ago, if that is at least `age`
    /// ago, footer and list of dead rows included. `pace` hears of the bytes read at a time, may take as long as the disk should rest, and
    /// says whether to go on.
    pub fn scrub(
        &self,
        age: Duration,
        pace: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<ScrubOutcome>> {
        let now = self.now().as_micros();
        let Some(live) = self.oldest_read(now.saturating_sub(age.as_micros() as i64)) else {
            return Ok(None);
        };
        let id = live.segment.entry.id;
        let Some(entry) = self.entry(id) else { return Ok(None) };
        // One of its own, so that the footer is read again too.
        let path = live.segment.path.clone();
        let segment = Segment::new(entry, path, self.inner.cache.clone());
        let mut whole = true;
        let dead = store_dir::read_dead(&self.inner.folder.path(""), &segment.entry);
        let found = dead.and_then(|_| {
            corrupt_ranges(&segment, &mut |bytes| {
                whole &= pace(bytes);
                whole
            })
        });
        // Merged or deleted from meanwhile: its files may be gone.
        if self.entry(id).is_none_or(|entry| entry.dead != segment.entry.dead) {
            return Ok(None);
        }
        let damaged = match found {
            Ok(places) => match places.into_iter().next() {
                Some(what) => {
                    segment.damaged(what);
                    true
                }
                None => false,
            },
            Err(error @ Error::Corrupt { .. }) => {
                self.inner.cache.record_corruption(id, &error);
                true
            }
            Err(error) => {
                // The others get their turn before this one is tried again.
                self.note_read(id, now);
                return Err(error);
            }
        };
        if !whole && !damaged {
            return Ok(None);
        }
        // Without checksums nothing was compared.
        if !damaged && segment.entry.checks.is_some() {
            self.inner.cache.clear_corruption(id);
        }
        self.note_read(id, now);
        let (file, bytes) = (segment.entry.file.clone(), segment.entry.bytes);
        Ok(Some(ScrubOutcome { file, bytes, damaged }))
    }

    fn entry(&self, id: u64) -> Option<SegmentEntry> {
        let writer = lock(&self.inner.writer);
        writer.manifest.segments.iter().find(|entry| entry.id == id).cloned()
    }

    fn live_segments(&self) -> Vec<LiveSegment> {
        let state = lock(&self.inner.state);
        state.projects.values().flat_map(|project| project.segments.iter().cloned()).collect()
    }

    /// The live segment that was read or written longest ago, before `before`.
    fn oldest_read(&self, before: i64) -> Option<LiveSegment> {
        let segments = self.live_segments();
        let known = lock(&self.inner.scrubbed).clone();
        let read_at = |live: &LiveSegment| match known.get(&live.segment.entry.id) {
            Some(at) => *at,
            None => written_at(&live.segment.path),
        };
        let oldest = segments.into_iter().map(|live| (read_at(&live), live));
        let oldest = oldest.min_by_key(|(at, live)| (*at, live.segment.entry.id));
        oldest.filter(|(at, _)| *at <= before).map(|(_, live)| live)
    }

    fn note_read(&self, id: u64, at: i64) {
        let live: HashSet<u64> = {
            let writer = lock(&self.inner.writer);
            writer.manifest.segments.iter().map(|entry| entry.id).collect()
        };
        let mut known = lock(&self.inner.scrubbed).clone();
        Arc::make_mut(&mut known).insert(id, at);
        Arc::make_mut(&mut known).retain(|id, _| live.contains(id));
        *lock(&self.inner.scrubbed) = known.clone();
        let path = self.inner.folder.path(SCRUB_TIMES_FILE);
        let aside = path.with_extension("new");
        let text = serde_json::to_vec(&*known).unwrap_or_default();
        let kept = fs::write(&aside, text).and_then(|()| fs::rename(&aside, &path));
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot note which segments were read");
        }
    }
}

/// In microseconds; a file that cannot be looked at is read first.
fn written_at(path: &std::path::Path) -> i64 {
    let modified = fs::metadata(path).and_then(|about| about.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_micros() as i64)
}
