//! Scalar expressions of a HogQL plan, evaluated over Arrow arrays with ClickHouse's meaning.
//!
//! On the read path between `hogql`, which gives every expression its type, and whatever has the
//! rows: an engine asks for a [`Program`] once and runs it over each batch. Pure: no I/O, no clock
//! but the one in its [`Context`], no tables, no aggregates.
//!
//! - Values have the Arrow type that [`data_type`] says; a moment is microseconds of UTC, whatever
//!   zone its type shows it in.
//! - What depends on one dictionary-coded input alone is worked out once for each entry.
//! - Texts are UTF-8 and counted in characters, other than ClickHouse's, which are bytes (contract,
//!   5.6). Dates and moments have no narrow range: 1900 is not cut to 1970.

mod cancellation;
mod cast;
mod column;
mod compare;
mod compile;
mod dictionary;
mod error;
mod functions;
mod gather;
mod json;
mod keys;
mod memory;
mod meter;
mod node;
mod parts;
mod patterns;
mod program;
mod show;
mod text;
mod times;
mod types;

use jiff::tz::TimeZone;

pub use cancellation::Cancellation;
pub use error::{Error, Result};
pub use json::json_value;
pub use memory::{MemoryCharge, MemoryTracker, QueryMemoryPool};
pub use program::Program;
pub use types::data_type;

/// What an expression's meaning depends on beside its inputs.
#[derive(Clone, Debug)]
pub struct Context {
    /// The project's.
    pub zone: TimeZone,
    /// Microseconds since 1970.
    pub now: i64,
    /// What `toStartOfWeek` without a mode goes by.
    pub week_starts_monday: bool,
    /// Whether anybody still waits for what is worked out.
    pub cancellation: Cancellation,
}

/// Bytes of all texts that one call may give for one batch: offsets are 32 bits wide.
pub const TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of everything that a program works out for one batch.
pub const RUN_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Bytes of everything that is worked out before a program runs.
pub const CONSTANT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Elements of all arrays that one call may give for one batch.
pub const ELEMENTS_MAX: usize = 16 * 1024 * 1024;
