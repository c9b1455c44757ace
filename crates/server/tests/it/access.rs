//! Access controls of projects and objects.

pub mod indirect;
pub mod information_leaks;
pub mod objects;
pub mod rules;
