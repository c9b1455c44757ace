//! The query endpoint and its limits.

mod correlation_and_timeline;
mod displays;
mod language;
pub mod limits;
mod objects;
pub mod run;
mod web_analytics;
