//! The journal: a write-ahead log of accepted records. A record is durable before it is
//! acknowledged, and stays until both stores have committed it.
//!
//! Capture appends; the pipeline reads and releases. Records are opaque bytes here. One server owns a
//! journal. A replicated log could replace it, so only [`Journal::open`], [`Inspection`],
//! [`survey()`] and [`salvage()`] know of files.
//!
//! - `format`: the format on disk. `cursor`: the only code that trusts stored bytes.
//! - `writer`: the thread that groups appends and syncs; why history stays linear after failures.
//! - `recover`: opening after a crash; tells a torn write from corruption.
//! - `survey`: reads past corruption. `salvage`: writes a new journal from what a survey finds.

mod batch;
mod buffer;
mod counters;
mod cursor;
mod error;
mod format;
mod inspect;
mod journal;
mod position;
mod queue;
mod reader;
mod recover;
mod salvage;
mod scan;
mod segment;
mod settings;
mod storage;
mod survey;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::Batch;
pub use buffer::{Buffer, BufferPool};
pub use counters::{SYNC_BUCKETS_US, Stats};
pub use error::{Corruption, Error, FullCause, Result};
pub use inspect::Inspection;
pub use journal::Journal;
pub use position::{JournalId, Position};
pub use reader::{Reader, Record, Records};
pub use salvage::{SalvageOutcome, SalvageTarget, salvage};
pub use settings::{Durability, Settings};
pub use survey::{Survey, check_version, disk_bytes, is_present, survey};
