//! What a segment's footer says beyond Parquet's own metadata.

use serde::{Deserialize, Serialize};

use crate::segment::kind::Kind;

pub(crate) const FOOTER_KEY: &str = "hedgerow";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub columns: Vec<ColumnNote>,
    /// By row group: its events in file order.
    pub runs: Vec<Vec<Run>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ColumnNote {
    pub field: String,
    pub kind: Kind,
}

/// Neighbouring rows of one event, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub event: Box<str>,
    pub rows: u32,
    /// Times of the first and the last row.
    pub from: i64,
    pub to: i64,
}

impl Footer {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers always become JSON")
    }
}
