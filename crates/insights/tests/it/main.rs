#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod behavioral;
mod filters;
mod funnels;
mod hogql;
mod kinds;
mod limits;
mod oracle;
mod project;
mod top_values;
mod trends;
