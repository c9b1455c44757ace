//! Chores and offline access: retention, scrubbing, verification, and reading a store without its lock.

pub(crate) mod read_only;
mod retention;
pub(crate) mod scrub;
pub(crate) mod stored_position;
pub(crate) mod verify;
