//! Counters of the journal and the histogram of fsync latency.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Position;

/// Upper bounds of the fsync latency histogram, in microseconds. Longer syncs are counted only in
/// [`Stats::syncs`].
pub const SYNC_BUCKETS_US: [u64; 14] = [
    50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 409_600,
    1_638_400,
];

/// Counts since the journal was opened, and its current range of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub oldest: Position,
    /// The high-water mark: the position of a reader that has read everything. The next record gets
    /// this position or a later one.
    pub next: Position,
    pub disk_bytes: u64,
    /// Bytes of appends that are queued or being written.
    pub queue_bytes: u64,
    pub records: u64,
    pub record_bytes: u64,
    pub groups: u64,
    pub groups_failed: u64,
    /// Losses of messages that servers acknowledged: 1 from the first that was found, as nothing is
    /// read after it. Always 0 in files, where corruption is an error.
    pub lost_messages: u64,
    /// Syncs of a file, or messages that servers acknowledged.
    pub syncs: u64,
    pub sync_us_total: u64,
    /// Syncs per bucket of [`SYNC_BUCKETS_US`]; not cumulative.
    pub sync_buckets: [u64; SYNC_BUCKETS_US.len()],
}

#[derive(Default)]
pub(crate) struct Counters {
    pub records: AtomicU64,
    pub record_bytes: AtomicU64,
    groups: AtomicU64,
    groups_failed: AtomicU64,
    syncs: AtomicU64,
    sync_us_total: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BUCKETS_US.len()],
}

impl Counters {
    pub(crate) fn grouped(&self, written: bool) {
        let count = if written { &self.groups } else { &self.groups_failed };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let took_us = took.as_micros() as u64;
        self.syncs.fetch_add(1, Relaxed);
        self.sync_us_total.fetch_add(took_us, Relaxed);
        let bucket = SYNC_BUCKETS_US.partition_point(|bound| *bound < took_us);
        if let Some(bucket) = self.sync_buckets.get(bucket) {
            bucket.fetch_add(1, Relaxed);
        }
    }

    /// The counts; the extent is the caller's to fill in.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            oldest: Position::START,
            next: Position::START,
            disk_bytes: 0,
            queue_bytes: 0,
            records: self.records.load(Relaxed),
            record_bytes: self.record_bytes.load(Relaxed),
            groups: self.groups.load(Relaxed),
            groups_failed: self.groups_failed.load(Relaxed),
            lost_messages: 0,
            syncs: self.syncs.load(Relaxed),
            sync_us_total: self.sync_us_total.load(Relaxed),
            sync_buckets: self.sync_buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
        }
    }
}
