use std::time::Duration;

use crate::faults::FaultInjector;
use crate::{Error, Result};

/// Which events are dropped without being asked for.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Events older than this, by their timestamp.
    pub age_max: Option<Duration>,
    /// The oldest segments, until all segments together fit.
    pub disk_bytes_max: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Rows held in memory before they are flushed.
    pub memory_rows_max: usize,
    /// Bytes held in memory before they are flushed. While a flush runs, as many again may come.
    pub memory_bytes_max: usize,
    /// Rows younger than this may stay in memory when [`crate::Warehouse::flush_due`] looks.
    pub flush_age: Duration,
    /// Rows of a row group of a compacted segment.
    pub row_group_rows: usize,
    /// Rows of a compacted segment. A merge holds some tens of bytes in memory for each.
    pub segment_rows_max: usize,
    /// Bound on the largest column of a merge's inputs together, before compression: what else a
    /// merge holds in memory.
    pub merge_bytes_max: u64,
    /// Segments of similar size and the same month that are worth a merge.
    pub merge_segments_min: usize,
    /// Bound of decoded dictionaries and filters kept for readers.
    pub cache_bytes_max: u64,
    /// How long replaced files stay for readers outside.
    pub retired_keep: Duration,
    pub retention: Retention,
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
