#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod client;
mod deletes;
mod fidelity;
mod schema;
mod scripted;
mod support;
mod writer;
