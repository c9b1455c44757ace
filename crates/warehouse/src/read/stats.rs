//! What the scans of one snapshot read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters of a snapshot and its clones. Several scans of the same rows count each time.
#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    rows_scanned: AtomicU64,
    rows_matched: AtomicU64,
    cached_columns: AtomicU64,
    segments: Mutex<BTreeSet<u64>>,
}

/// See [`crate::Snapshot::scan_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Rows whose filters were evaluated.
    pub rows_scanned: u64,
    /// Rows that passed them.
    pub rows_matched: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Column pages and dictionaries that were found in the column cache.
    pub cached_columns: u64,
}

impl ScanCounters {
    pub fn add_segments(&self, segments: impl Iterator<Item = u64>) {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).extend(segments);
    }

    pub fn add_scanned(&self, rows: usize, cached_columns: u64) {
        self.rows_scanned.fetch_add(rows as u64, Ordering::Relaxed);
        self.cached_columns.fetch_add(cached_columns, Ordering::Relaxed);
    }

    pub fn add_matched(&self, rows: usize) {
        self.rows_matched.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn stats(&self) -> ScanStats {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        ScanStats {
            rows_scanned: self.rows_scanned.load(Ordering::Relaxed),
            rows_matched: self.rows_matched.load(Ordering::Relaxed),
            segments: segments.len() as u64,
            cached_columns: self.cached_columns.load(Ordering::Relaxed),
        }
    }
}
