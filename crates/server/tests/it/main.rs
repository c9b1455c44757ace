//! The real program over HTTP, on both catalogs.

mod activity;
mod harness;
mod keys;
mod members;
mod organizations;
mod people;
mod projects;
mod roles;
mod session;
mod starting;
mod users;
