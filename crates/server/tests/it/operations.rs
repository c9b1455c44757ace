//! Startup, shutdown, settings, admin commands, probes, metrics and packaging.

pub mod admin_commands;
pub mod copy;
pub mod demo;
pub mod instance_status;
pub mod observability;
pub mod packaging;
pub mod readiness;
pub mod readme;
pub mod settings;
pub mod shutdown;
pub mod startup;
