//! Black-box tests: the real `hedgerow` binary over HTTP, with SQLite and PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod accounts;
mod capture;
mod clickhouse;
mod dashboards;
mod durability;
mod events;
mod flags;
mod harness;
mod http;
mod insights;
mod operations;
mod persons;
mod queries;
