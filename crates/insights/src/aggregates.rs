//! Aggregation: aggregate functions, mergeable per-thread tables of partial aggregates, and
//! histogram bins.

pub(crate) mod function;
pub(crate) mod histogram;
pub(crate) mod table;
