#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod contract;
mod crash;
mod damage;
mod deletes;
mod duplicates;
mod embedded;
mod fidelity;
mod isolation;
mod lifecycle;
mod model;
mod months;
mod paging;
mod support;
