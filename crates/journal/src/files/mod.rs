//! The journal in segment files of one directory.
//!
//! - `format`: the format on disk. `cursor`: the only code that trusts stored bytes.
//! - `writer`: the thread that groups appends and syncs; why history stays linear after failures.
//! - `recover`: opening after a crash; tells a torn write from corruption.
//! - `survey`: reads past corruption. `salvage`: writes a new journal from what a survey finds.

mod cursor;
pub(crate) mod format;
mod inspect;
mod journal;
pub(crate) mod queue;
mod reader;
mod recover;
mod salvage;
mod scan;
mod segment;
mod storage;
mod survey;
#[cfg(test)]
mod tests;
mod writer;

pub use inspect::Inspection;
pub use salvage::{SalvageOutcome, SalvageTarget, salvage};
pub use survey::{Survey, check_version, disk_bytes, is_present, survey};

pub(crate) use journal::Journal;
pub(crate) use reader::Reader;
