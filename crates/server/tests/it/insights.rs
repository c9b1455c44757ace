//! Insights as stored objects, actors queries, annotations and search.

pub mod actors;
pub mod annotations;
pub mod crud;
pub mod search;
