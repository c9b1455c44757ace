//! Settings of a journal and their checks.

use std::time::Duration;

use crate::capacity::REQUEST_BYTES;
use crate::files::format::{FRAME_BYTES, GROUP_BYTES, HEADER_BYTES};
use crate::{Error, Result};

/// When an append to files is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After fdatasync: the record survives a power failure.
    #[default]
    Fsync,
    /// After the write: the record survives a killed process, not a power failure.
    Os,
}

/// Group headers hold lengths as 32 bits; a quarter of that exceeds any useful queue.
const QUEUE_BYTES_CEILING: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Settings {
    pub durability: Durability,
    /// Preallocated size of a segment. A larger append gets a larger segment.
    pub segment_bytes: u64,
    pub record_bytes_max: u64,
    /// Bound of all appends that are not durable yet, and of a single append.
    pub queue_bytes_max: u64,
    /// How long an append waits for queue capacity before it fails with [`Error::Busy`].
    pub queue_wait_max: Duration,
    /// Bound of the segments that are not released yet. Past it appends fail with [`Error::Full`].
    pub disk_bytes_max: u64,
    /// Returns free pages of the allocator to the system. Runs when a large buffer was freed.
    pub purge: fn(),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            durability: Durability::Fsync,
            segment_bytes: 64 << 20,
            record_bytes_max: 32 << 20,
            queue_bytes_max: 64 << 20,
            queue_wait_max: Duration::from_secs(5),
            disk_bytes_max: 16 << 30,
            purge: || {},
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        let append_bytes_max = HEADER_BYTES + GROUP_BYTES as u64 + self.queue_bytes_max;
        let largest = self.segment_bytes.max(append_bytes_max);
        let rules = [
            (self.segment_bytes >= 2 * HEADER_BYTES, "segment_bytes", "is below 8192"),
            (self.segment_bytes <= QUEUE_BYTES_CEILING, "segment_bytes", "is above 1 GiB"),
            (self.queue_bytes_max <= QUEUE_BYTES_CEILING, "queue_bytes_max", "is above 1 GiB"),
            (
                self.record_bytes_max + FRAME_BYTES as u64 + REQUEST_BYTES <= self.queue_bytes_max,
                "record_bytes_max",
                "does not fit into queue_bytes_max",
            ),
            (
                self.disk_bytes_max >= 2 * largest,
                "disk_bytes_max",
                "must be at least twice segment_bytes and twice queue_bytes_max",
            ),
        ];
        match rules.into_iter().find(|(holds, _, _)| !holds) {
            Some((_, name, why)) => Err(Error::Setting { name, why }),
            None => Ok(()),
        }
    }
}
