//! The write path: append to memory, flush, compaction and deletes, each committed by a manifest edit.

pub(crate) mod backoff;
pub(crate) mod compact;
pub(crate) mod dedup;
pub(crate) mod delete;
pub(crate) mod duplicates;
pub(crate) mod flush;
pub(crate) mod manifest_edit;
pub(crate) mod state;
pub(crate) mod warehouse;
