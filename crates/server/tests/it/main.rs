//! The real program over HTTP, on both catalogs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod activity;
mod administering;
mod annotations;
mod capture;
mod capture_v1;
mod cohorts;
mod configuring;
mod dashboard_rights;
mod dashboard_tiles;
mod dashboards;
mod dead_letters;
mod definitions;
mod flag_answers;
mod flag_definitions;
mod flags;
mod flags_access;
mod events;
mod harness;
mod hostile;
mod insights;
mod keys;
mod kill;
mod members;
mod misusing;
mod operating;
mod organizations;
mod pages;
mod people;
mod persons;
mod projects;
mod remote_config;
mod roles;
mod scenarios;
mod session;
mod sharing;
mod starting;
mod static_files;
mod stopping;
mod stored;
mod transport;
mod users;
mod walk;
mod writing;
