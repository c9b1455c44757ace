//! Counters of the pipeline since it started.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

/// Shared with the metrics endpoint.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) dead_letters: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) applied: AtomicU64,
    pub(crate) applied_received_at: AtomicI64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub batches: u64,
    pub records: u64,
    /// Rows appended to the warehouse.
    pub events: u64,
    pub dead_letters: u64,
    /// Batches that failed and were retried.
    pub failures: u64,
    /// The first position that is not applied.
    pub applied: u64,
    /// When the last applied record was received, in microseconds.
    pub applied_received_at: i64,
}

impl Counters {
    /// Before the pipeline is open: what is before this position is taken for applied.
    pub fn expect_from(&self, applied: u64) {
        self.applied.store(applied, Relaxed);
    }

    pub fn snapshot(&self) -> Snapshot {
        let applied = self.applied.load(Acquire);
        Snapshot {
            batches: self.batches.load(Relaxed),
            records: self.records.load(Relaxed),
            events: self.events.load(Relaxed),
            dead_letters: self.dead_letters.load(Relaxed),
            failures: self.failures.load(Relaxed),
            applied,
            applied_received_at: self.applied_received_at.load(Relaxed),
        }
    }
}
