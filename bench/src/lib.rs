//! Benchmarks of Hedgerow against baselines that are measured in the same run.

pub mod answers;
pub mod attacks;
pub mod capture;
pub mod clickhouse;
pub mod client;
pub mod flags;
pub mod load;
pub mod people;
pub mod pipeline;
pub mod queries;
pub mod reference;
pub mod report;
pub mod segments;
pub mod server_process;
pub mod sql;
pub mod startup;
pub mod stores;
pub mod ui;
