//! Scrubbing: periodic reads of cold segments, so that corruption is found while a backup still has
//! the data.

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

/// The result of scrubbing one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOutcome {
    /// Relative to the warehouse's directory.
    pub file: String,
    pub bytes: u64,
    pub damaged: bool,
}

/// Known faults of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Errors of the segments in which corruption was found since the start, with the remedy.
    pub damaged: Vec<String>,
    /// Projects that a flush could not write, and why. Their events are in memory and in the journal.
    pub failing: Vec<(ProjectId, String)>,
}

impl Warehouse {
    pub fn health(&self) -> Health {
        let live = self.live_segments().iter().map(|live| live.segment.entry.id).collect();
        Health {
            damaged: self.inner.cache.corrupt_segments(&live),
            failing: self.inner.flush_backoff.all(),
        }
    }

    /// Verifies the checksums of the least recently scrubbed segment, if that was at least `age` ago,
    /// with its footer and dead rows. Calls `pace` with the size of each read: it may sleep to limit
    /// the disk load, and returns whether to continue.
    pub fn scrub(
        &self,
        age: Duration,
        pace: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<ScrubOutcome>> {
        let now = self.now().as_micros();
        let Some(live) = self.least_recently_scrubbed(now.saturating_sub(age.as_micros() as i64))
        else {
            return Ok(None);
        };
        let id = live.segment.entry.id;
        let Some(entry) = self.entry(id) else { return Ok(None) };
        // A new instance, so that the footer is read again too.
        let path = live.segment.path.clone();
        let segment = Segment::new(entry, path, self.inner.cache.clone());
        let mut complete = true;
        let dead = store_dir::read_dead(&self.inner.store_dir.path(""), &segment.entry);
        let ranges = dead.and_then(|_| {
            corrupt_ranges(&segment, &mut |bytes| {
                complete &= pace(bytes);
                complete
            })
        });
        // A merge or delete may have replaced its files in the meantime.
        if self.entry(id).is_none_or(|entry| entry.dead != segment.entry.dead) {
            return Ok(None);
        }
        let damaged = match ranges {
            Ok(ranges) => match ranges.into_iter().next() {
                Some(what) => {
                    segment.mark_corrupt(what);
                    true
                }
                None => false,
            },
            Err(error @ Error::Corrupt { .. }) => {
                self.inner.cache.record_corruption(id, &error);
                true
            }
            Err(error) => {
                // Scrub the other segments before retrying this one.
                self.record_scrub(id, now);
                return Err(error);
            }
        };
        if !complete && !damaged {
            return Ok(None);
        }
        // A segment without checksums was not verified.
        if !damaged && segment.entry.checks.is_some() {
            self.inner.cache.clear_corruption(id);
        }
        self.record_scrub(id, now);
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

    /// The live segment that was scrubbed or written longest ago, before `before`.
    fn least_recently_scrubbed(&self, before: i64) -> Option<LiveSegment> {
        let segments = self.live_segments();
        let scrub_times = lock(&self.inner.scrubbed).clone();
        let scrubbed_at = |live: &LiveSegment| match scrub_times.get(&live.segment.entry.id) {
            Some(at) => *at,
            None => written_at(&live.segment.path),
        };
        let oldest = segments.into_iter().map(|live| (scrubbed_at(&live), live));
        let oldest = oldest.min_by_key(|(at, live)| (*at, live.segment.entry.id));
        oldest.filter(|(at, _)| *at <= before).map(|(_, live)| live)
    }

    fn record_scrub(&self, id: u64, at: i64) {
        let live: HashSet<u64> = {
            let writer = lock(&self.inner.writer);
            writer.manifest.segments.iter().map(|entry| entry.id).collect()
        };
        let mut scrub_times = lock(&self.inner.scrubbed).clone();
        Arc::make_mut(&mut scrub_times).insert(id, at);
        Arc::make_mut(&mut scrub_times).retain(|id, _| live.contains(id));
        *lock(&self.inner.scrubbed) = scrub_times.clone();
        let path = self.inner.store_dir.path(SCRUB_TIMES_FILE);
        let temporary = path.with_extension("new");
        let text = serde_json::to_vec(&*scrub_times).unwrap_or_default();
        let stored = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = stored {
            tracing::warn!(%error, "cannot store when segments were scrubbed");
        }
    }
}

/// Modification time in microseconds; 0, so that it is scrubbed first, if it cannot be read.
fn written_at(path: &std::path::Path) -> i64 {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_micros() as i64)
}
