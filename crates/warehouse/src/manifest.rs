//! The manifest and the directory it describes: which files are live, committed atomically.

mod format;
pub(crate) mod partition;
pub(crate) mod store_dir;

pub use format::DeleteSelection;
pub(crate) use format::{
    DeadEntry, DeleteMask, EVENTS_MAX, EventSpan, FILE, Manifest, Retired, SegmentChecksums,
    SegmentEntry, UuidRanges,
};
pub(crate) use partition::Partition;
pub(crate) use store_dir::StoreDir;
