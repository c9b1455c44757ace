//! Executes a checked HogQL plan on a project's read view.
//!
//! On the read path between `hogql`, which resolves and type-checks a statement, and `query`, which
//! shapes the result. The only crate that names its engine: DataFusion's physical operators (joins,
//! grouping, sorting), and operators of its own where ClickHouse's semantics differ. Scalar
//! expressions are [`eval`]'s.
//!
//! Every query is bounded in time, memory (nothing spills to disk) and rows. It runs on threads of
//! its own, which end when the caller drops the future.

mod aggregates;
mod cancellation;
mod closure_expr;
mod error;
mod execute;
mod lower;
mod memory;
mod operators;
mod scan;

pub use error::{Error, Result, UNEXPECTED};
pub use execute::{Limits, Paths, ResultSet, run, run_within};
