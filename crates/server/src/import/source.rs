//! A file of events, whatever its format.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Result;

use super::lines::Lines;
use super::rows::Rows;

pub(super) enum Source {
    Lines(Lines),
    Rows(Rows),
}

pub(super) enum Next {
    /// As JSON that capture can read.
    Event(String),
    /// And why.
    Refused(Cow<'static, str>),
    End,
}

impl Source {
    pub fn open(path: &Path) -> Result<Self> {
        match path.extension() {
            Some(ending) if ending == "parquet" => Rows::open(path).map(Self::Rows),
            _ => Lines::open(path).map(Self::Lines),
        }
    }

    /// How many lines or rows were read.
    pub fn number(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.number(),
            Self::Rows(rows) => rows.number(),
        }
    }

    pub fn percent(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.percent(),
            Self::Rows(rows) => rows.percent(),
        }
    }

    pub fn skip(&mut self, count: u64) -> Result<()> {
        match self {
            Self::Lines(lines) => lines.skip(count),
            Self::Rows(rows) => rows.skip(count),
        }
    }

    pub fn next(&mut self) -> Result<Next> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Rows(rows) => rows.next(),
        }
    }
}
