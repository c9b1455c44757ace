//! The warehouse: event rows, from the pipeline's hands to every reader's.
//!
//! The pipeline appends rows in the order of the journal; readers take snapshots. It never knows
//! persons, definitions or HTTP, and nothing outside names its engine.

mod block;
mod cache;
mod change;
mod compact;
mod dedup;
mod delete;
mod dictionary;
mod error;
mod faults;
mod fields;
mod filter;
mod flush;
mod folder;
mod json;
mod list;
mod manifest;
mod memory;
mod merge;
mod month;
mod row;
mod segment;
mod settings;
mod slab;
mod snapshot;
mod state;
mod upkeep;
mod value;
mod warehouse;

pub use compact::{Compacted, Effort};
pub use delete::Receipt;
pub use error::{Error, Result};
pub use faults::{Faults, Step};
pub use filter::{Filter, Key, Predicate, Test};
pub use list::{Cursor, Listing, Order, Window};
pub use manifest::Selection;
pub use row::{EventRow, GROUP_TYPES};
pub use settings::{Retention, Settings};
pub use snapshot::{Snapshot, Totals, ValueCount};
pub use value::Value;
pub use warehouse::{Files, LiveFile, Warehouse};
