//! Settings of the warehouse and their checks.

use std::time::Duration;

use crate::faults::FaultInjector;
use crate::{Error, Result};

/// Retention rules: which events are dropped automatically.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Drops events whose timestamp is older than this.
    pub age_max: Option<Duration>,
    /// Drops the oldest segments until all segments together fit.
    pub disk_bytes_max: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Memtable rows that trigger a flush.
    pub memory_rows_max: usize,
    /// Memtable bytes that trigger a flush. While it runs, as many again may be appended.
    pub memory_bytes_max: usize,
    /// Age of the oldest unflushed row at which [`crate::Warehouse::flush_due`] flushes.
    pub flush_age: Duration,
    /// Rows per row group.
    pub row_group_rows: usize,
    /// Bound of the rows of a compacted segment. A merge needs some tens of bytes of memory per row.
    pub segment_rows_max: usize,
    /// Bound of a merge's memory for one column: the uncompressed size of the largest columns of all
    /// inputs.
    pub merge_bytes_max: u64,
    /// Segments of similar size in one partition that trigger a merge.
    pub merge_segments_min: usize,
    /// Bound of the cache of decoded columns, dictionaries and bloom filters.
    pub cache_bytes_max: u64,
    /// How long replaced files stay for readers of the open format.
    pub retired_keep: Duration,
    pub retention: Retention,
    /// Returns free pages of the allocator to the system. Runs when the cache has evicted entries for
    /// a reservation and when a reservation ends.
    pub purge: fn(),
    pub faults: FaultInjector,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_rows_max: 128 << 10,
            memory_bytes_max: 96 << 20,
            flush_age: Duration::from_secs(60),
            row_group_rows: 1 << 20,
            segment_rows_max: 4 << 20,
            merge_bytes_max: 512 << 20,
            merge_segments_min: 6,
            cache_bytes_max: 256 << 20,
            retired_keep: Duration::from_secs(15 * 60),
            retention: Retention::default(),
            purge: || {},
            faults: FaultInjector::default(),
        }
    }
}

/// Row numbers inside a segment are 32 bits wide.
const ROWS_CEILING: usize = 1 << 31;

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        let rules = [
            (self.memory_rows_max >= 1, "memory_rows_max", "is zero"),
            (self.memory_rows_max <= ROWS_CEILING, "memory_rows_max", "is above 2^31"),
            (self.memory_bytes_max >= 1 << 10, "memory_bytes_max", "is below 1 KiB"),
            (self.memory_bytes_max <= 2 << 30, "memory_bytes_max", "is above 2 GiB"),
            (self.row_group_rows >= 1, "row_group_rows", "is zero"),
            (
                self.segment_rows_max >= self.row_group_rows,
                "segment_rows_max",
                "is below row_group_rows",
            ),
            (self.segment_rows_max <= ROWS_CEILING, "segment_rows_max", "is above 2^31"),
            (self.merge_bytes_max <= 2 << 30, "merge_bytes_max", "is above 2 GiB"),
            (self.merge_segments_min >= 2, "merge_segments_min", "is below 2"),
        ];
        match rules.into_iter().find(|(holds, _, _)| !holds) {
            Some((_, name, why)) => Err(Error::Setting { name, why }),
            None => Ok(()),
        }
    }
}
