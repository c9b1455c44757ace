//! Insights as stored objects, actors queries, the events of a number, annotations and search.

pub mod actors;
pub mod annotations;
pub mod counted_events;
pub mod crud;
pub mod search;
