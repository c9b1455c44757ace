//! Runs a checked HogQL plan over a project's events and what is known beside them.
//!
//! On the read path between `hogql`, which says what a statement means, and `query`, which answers
//! with it. The only crate that names its engine: DataFusion's operators (joins, grouping,
//! sorting), and steps of our own where ClickHouse means something else. Scalar expressions are
//! [`eval`]'s.
//!
//! A query has a bound of everything: time, memory (nothing goes to disk) and rows. Its work is
//! done on threads of its own, which end when the caller stops waiting.

mod aggregates;
mod apply;
mod error;
mod execute;
mod lower;
mod memory;
mod scan;
mod steps;
mod stop;

pub use error::{Error, Result, UNEXPECTED};
pub use execute::{Limits, ResultSet, run, run_within};
