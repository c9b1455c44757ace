//! Scalar expressions of a HogQL plan, evaluated over Arrow arrays with ClickHouse's meaning.
//!
//! On the read path between `hogql`, which types every expression, and the engines that have the
//! rows (`sql`, `insights`): an engine compiles a [`Program`] once and runs it over each batch. Pure:
//! no I/O, no clock but [`Context::now`], no tables, no aggregates.
//!
//! - Values have the Arrow type that [`data_type`] returns. A timestamp is microseconds since 1970 in
//!   UTC, whatever zone its type displays it in.
//! - A subexpression that depends on one dictionary-encoded input alone is evaluated once per
//!   dictionary entry.
//! - Strings are UTF-8 and counted in characters, other than ClickHouse's, which are bytes (contract,
//!   5.6). Dates and instants have no narrow range: 1900 is not cut to 1970.

mod compile;
mod error;
mod functions;
mod limits;
mod program;
mod run;
mod time;
mod values;
mod vector;

use jiff::tz::TimeZone;

pub use error::{Error, Result};
pub use limits::cancellation::Cancellation;
pub use limits::memory::{MemoryCharge, MemoryTracker, QueryMemoryPool};
pub use program::Program;
pub use values::json::{json_type, json_value};
pub use vector::types::data_type;

/// What the value of an expression depends on besides its inputs.
#[derive(Clone, Debug)]
pub struct Context {
    /// The project's time zone.
    pub zone: TimeZone,
    /// The value of `now()`, in microseconds since 1970.
    pub now: i64,
    /// First day of the week for `toStartOfWeek` without a mode.
    pub week_starts_monday: bool,
    /// Cancellation flag, deadline and memory tracker of the query.
    pub cancellation: Cancellation,
}

/// Bytes of all strings that one call may return for one batch: Arrow's offsets are 32 bits wide.
pub const STRING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of all intermediate results of a program for one batch.
pub const RUN_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Bytes of all constants of a program.
pub const CONSTANT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Elements of all arrays that one call may return for one batch.
pub const ELEMENTS_MAX: usize = 16 * 1024 * 1024;
