#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod agreeing;
mod clickhouse;
mod contract;
mod hostile;
mod limits;
mod lowered;
mod made;
mod support;
mod varied;
