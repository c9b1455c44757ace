//! Segments: immutable Parquet files in the open format that the crate's documentation describes.

pub(crate) mod cache;
pub(crate) mod checksums;
pub(crate) mod chunk;
mod decode;
pub(crate) mod footer;
pub(crate) mod integrity;
pub(crate) mod kind;
mod live;
mod packed_ints;
mod point_read;
pub(crate) mod read;
mod rle;
pub(crate) mod source;
pub(crate) mod write;

pub(crate) use live::LiveSegment;
pub(crate) use point_read::CachedPage;
pub(crate) use read::Segment;
