//! The journal: accepted records, durable before they are acknowledged, until both stores have them.
//!
//! It stands between capture, which appends, and the pipeline, which reads and releases. It never
//! looks into a record. One server owns a journal; a replicated log may stand in its place, so
//! nothing but [`Journal::open`], [`Inspection`], [`survey()`] and [`salvage()`] knows of files.
//!
//! - `format` is what stands on disk, `cursor` the only code that trusts it.
//! - `writer` is the thread that appends, with the argument why history stays one after failures.
//! - `recover` tells a torn tail from damage.
//! - `survey` reads on behind damage, and `salvage` makes a new journal of what it finds.

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
pub use buffer::Buffer;
pub use counters::{SYNC_BUCKETS_US, Stats};
pub use error::{Damage, Error, Result, Room};
pub use inspect::Inspection;
pub use journal::Journal;
pub use position::{JournalId, Position};
pub use reader::{Reader, Record, Records};
pub use salvage::{Salvaged, Wanted, salvage};
pub use settings::{Durability, Settings};
pub use survey::{Survey, check_version, disk_bytes, is_present, survey};
