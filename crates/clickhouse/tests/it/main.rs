#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod client;
#[path = "../../../warehouse/tests/it/contract/mod.rs"]
mod contract;
mod deletes;
mod fidelity;
mod schema;
mod scripted;
mod support;
mod warehouse_contract;
mod writer;
