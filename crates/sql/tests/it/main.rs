#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod agreeing;
mod contract;
mod hostile;
mod made;
mod support;
