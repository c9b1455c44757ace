//! From the journal to the stores: parse, enrich, find the person, store.
//!
//! It stands between the journal and the two stores on the write path. Its offset travels inside
//! each store's own commit, so a crash between them is repaired by replay. It never answers
//! anybody: readers ask the stores.
//!
//! - `prepare` and `normalise` read a record, `identity`, `groups` and `definitions` decide what
//!   it changes: all of them pure.
//! - `commit` loads what they need and writes what they decided, in one transaction.
//! - `pipeline` keeps the two stores in step, and sets aside what cannot be applied; `burst` says when
//!   it had better rest.

mod burst;
mod commit;
mod counters;
pub mod definitions;
mod edit;
mod error;
pub mod groups;
pub mod identity;
pub mod normalise;
mod pipeline;
mod prepare;
mod rows;

pub use burst::Burst;
pub use counters::{Counters, Snapshot};
pub use error::{Error, Result};
pub use pipeline::{Parts, Pipeline};
