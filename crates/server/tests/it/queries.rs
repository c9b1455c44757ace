//! The query endpoint and its limits.

pub mod limits;
pub mod run;
