//! The write path from the journal to the stores: parse, enrich, resolve identity, store.
//!
//! The journal offset is part of each store's own commit, so replay repairs a crash between the two.
//! The pipeline serves no requests: readers query the stores.
//!
//! - `prepare` and `normalize` parse a record; `identity`, `groups` and `definitions` decide what it
//!   changes. All of them are pure.
//! - `commit` loads their inputs and assembles their changes into one catalog transaction.
//! - `pipeline` keeps both stores in step and writes poison records to the dead letters; `pacing`
//!   makes it yield to capture in a burst.

mod commit;
mod counters;
pub mod definitions;
mod edit;
mod error;
pub mod groups;
pub mod identity;
pub mod normalize;
mod pacing;
mod pipeline;
mod prepare;
mod rows;

pub use counters::{Counters, Snapshot};
pub use error::{Error, Result};
pub use pacing::IngestPacer;
pub use pipeline::{Parts, Pipeline};
