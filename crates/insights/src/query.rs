//! Insight queries as clients send them: JSON shape, date ranges and calendar buckets.
//!
//! Nothing here reads events.

pub(crate) mod calendar;
pub(crate) mod date_range;
pub(crate) mod noop_keys;
pub(crate) mod spec;
