use std::time::Duration;

use crate::format::{FRAME_BYTES, GROUP_BYTES, HEADER_BYTES};
use crate::queue::REQUEST_BYTES;
use crate::{Error, Result};

/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After fdatasync: it survives a power cut.
    #[default]
    Fsync,
    /// After the write: it survives a killed process, not a power cut.
    Os,
}

/// Group headers carry lengths as 32 bits; a quarter of that is far beyond any useful queue.
const QUEUE_BYTES_CEILING: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Settings {
    pub durability: Durability,
    /// Size a segment is preallocated with; one bigger append gets a bigger segment.
    pub segment_bytes: u64,
    pub record_bytes_max: u64,
    /// Bound of everything handed over and not yet durable. Also the largest single append.
    pub queue_bytes_max: u64,
    /// How long an append waits for room in the queue before it is refused as busy.
    pub queue_wait_max: Duration,
    /// Bound of what is stored and not yet released.
    pub disk_bytes_max: u64,
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
                "has no room for two segments of segment_bytes or queue_bytes_max",
            ),
        ];
        match rules.into_iter().find(|(holds, _, _)| !holds) {
            Some((_, name, why)) => Err(Error::Setting { name, why }),
            None => Ok(()),
        }
    }
}
