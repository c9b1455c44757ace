//! Conversions of values: casts, text, JSON and patterns.

mod array_literals;
pub(crate) mod cast;
pub(crate) mod format;
pub(crate) mod json;
pub(crate) mod parse;
pub(crate) mod patterns;
