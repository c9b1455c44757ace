//! The read path: snapshots, filters, scans and lists over dictionary codes.

pub(crate) mod filter;
pub(crate) mod list;
pub(crate) mod memoized_predicate;
pub(crate) mod row_set;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod snapshot_builder;
pub(crate) mod stats;
