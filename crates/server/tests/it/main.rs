//! The real program over HTTP, on both catalogs.

mod activity;
mod harness;
mod organizations;
mod people;
mod projects;
mod starting;
