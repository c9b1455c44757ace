//! What the tests of several crates share: seeds, databases, ClickHouse as an oracle, generated
//! insights, and a running server.
//!
//! Only dev-dependencies may name this crate, and it uses none of the workspace: a crate that it
//! used would be compiled twice for that crate's own unit tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deps;
mod seed;

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
#[cfg(feature = "postgres")]
pub mod database;
#[cfg(feature = "insights")]
pub mod insights;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "server")]
pub mod server;

pub use deps::test_deps;
pub use seed::{Rng, SEED, Seed, given_seed, seed, seed_or, seeds};
