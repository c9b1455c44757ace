//! The real program over HTTP, on both catalogs.

mod activity;
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
