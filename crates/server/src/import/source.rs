//! The file to import, JSON lines or Parquet by its extension.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Result;

use super::jsonl::JsonLines;
use super::parquet_rows::ParquetRows;

pub(super) enum Source {
    JsonLines(JsonLines),
    Parquet(ParquetRows),
}

pub(super) enum ReadItem {
    /// JSON as capture reads it.
    Event(String),
    /// The reason why a line or row is not an event.
    Invalid(Cow<'static, str>),
    End,
}

impl Source {
    pub fn open(path: &Path) -> Result<Self> {
        match path.extension() {
            Some(ending) if ending == "parquet" => ParquetRows::open(path).map(Self::Parquet),
            _ => JsonLines::open(path).map(Self::JsonLines),
        }
    }

    /// Lines or rows read so far.
    pub fn number(&self) -> u64 {
        match self {
            Self::JsonLines(lines) => lines.number(),
            Self::Parquet(rows) => rows.number(),
        }
    }

    pub fn percent(&self) -> u64 {
        match self {
            Self::JsonLines(lines) => lines.percent(),
            Self::Parquet(rows) => rows.percent(),
        }
    }

    pub fn skip(&mut self, count: u64) -> Result<()> {
        match self {
            Self::JsonLines(lines) => lines.skip(count),
            Self::Parquet(rows) => rows.skip(count),
        }
    }

    pub fn next(&mut self) -> Result<ReadItem> {
        match self {
            Self::JsonLines(lines) => lines.next(),
            Self::Parquet(rows) => rows.next(),
        }
    }
}
