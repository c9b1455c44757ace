#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod aggregates;
mod contract;
mod corpus;
mod differential;
mod limits;
mod memory;
mod sessions;
mod support;
