//! The real program over HTTP, on both catalogs.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod actions;
mod activity;
mod annotations;
mod harness;
mod keys;
mod members;
mod organizations;
mod pages;
mod people;
mod projects;
mod roles;
mod session;
mod starting;
mod transport;
mod users;
mod walk;
