#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod crash;
mod deletes;
mod fidelity;
mod lifecycle;
mod model;
mod paging;
mod support;
