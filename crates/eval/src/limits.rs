//! Limits of a running evaluation: cancellation, deadline and memory.

pub(crate) mod cancellation;
pub(crate) mod memory;
pub(crate) mod meter;
