//! The real program over HTTP, on both catalogs.

mod harness;
mod starting;
