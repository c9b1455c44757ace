//! Segments: immutable Parquet files, the open format described in the crate's documentation.

pub(crate) mod bits;
pub(crate) mod checks;
pub(crate) mod chunk;
mod decode;
pub(crate) mod footer;
pub(crate) mod kind;
mod point;
pub(crate) mod read;
pub(crate) mod source;
pub(crate) mod write;

pub(crate) use point::CachedPage;
pub(crate) use read::Segment;
