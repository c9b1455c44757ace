//! The real program over HTTP, on both catalogs.

mod actions;
mod activity;
mod administering;
mod annotations;
mod configuring;
mod harness;
mod keys;
mod members;
mod misusing;
mod operating;
mod organizations;
mod pages;
mod people;
mod projects;
mod roles;
mod session;
mod starting;
mod stopping;
mod transport;
mod users;
mod walk;
mod writing;
