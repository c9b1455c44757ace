//! Capture over HTTP: event bodies, SDKs, the memory budget of requests, and what the journal stores.

pub mod browser_sdk;
pub mod geoip;
pub mod journal_records;
pub mod malicious_bodies;
pub mod memory_budget;
pub mod remote_config;
pub mod server_sdks;
pub mod static_files;
pub mod v0;
pub mod v1;
