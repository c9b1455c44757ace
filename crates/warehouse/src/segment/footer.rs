//! The metadata that a segment's footer has in addition to Parquet's own.

use serde::{Deserialize, Serialize};

use crate::segment::kind::Kind;

pub(crate) const FOOTER_KEY: &str = "hedgerow";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub columns: Vec<ColumnNote>,
    /// For each row group, its runs in file order.
    pub runs: Vec<Vec<Run>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ColumnNote {
    pub field: String,
    pub kind: Kind,
}

/// Consecutive rows of one event, sorted by timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub event: Box<str>,
    pub rows: u32,
    /// Timestamps of the first and the last row, in microseconds.
    pub from: i64,
    pub to: i64,
}

impl Footer {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers always become JSON")
    }
}
