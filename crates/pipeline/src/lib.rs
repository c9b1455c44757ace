//! From the journal to the stores: parse, enrich, find the person, store.
//!
//! It stands between the journal and the two stores on the write path. Its offset travels inside
//! each store's own commit, so a crash between them is repaired by replay. It never answers
//! anybody: readers ask the stores.

pub mod definitions;
pub mod groups;
pub mod identity;
pub mod normalise;
