//! The real program over HTTP, on both catalogs.

mod harness;
mod organizations;
mod people;
mod starting;
