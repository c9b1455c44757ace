//! Scans: columns of all matching events in batches, for aggregation.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::Result;
use crate::columns::{Column, IntColumn};
use crate::read::filter::{ColumnKey, Filter, sorted_ranges, unordered_ranges};
use crate::read::row_set::RowSet;
use crate::read::snapshot::Snapshot;
use crate::segment::read::columns::CACHED_READ_ROWS_MAX;

/// Rows per scan range: bounds the memory of a reader per column.
const SCAN_ROWS_MAX: usize = CACHED_READ_ROWS_MAX;
/// Rows per scan range with the JSON of all properties, which is wide.
const WIDE_ROWS_MAX: usize = 4 << 10;

/// The columns to read besides timestamp and dense id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    pub keys: Vec<ColumnKey>,
    pub uuids: bool,
    pub created_at: bool,
    /// The JSON of all properties.
    pub properties: bool,
}

/// A unit of a scan. Ranges can be read in any order and by several threads.
#[derive(Clone, Debug)]
pub struct ScanRange {
    row_set: RowSet,
    rows: Range<usize>,
    event: Option<Arc<str>>,
}

/// Events that passed the filter.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub rows: usize,
    /// Microseconds since 1970.
    pub timestamps: Vec<i64>,
    pub distinct_nos: Vec<u32>,
    /// One per key of the projection, in that order.
    pub columns: Vec<Column>,
    /// Empty unless the projection has it, as are the next two.
    pub uuids: Vec<[u8; 16]>,
    pub created_at: Vec<i64>,
    pub properties: Vec<String>,
}

/// A condition that needs several columns of a row at once.
pub trait RowPredicate: std::fmt::Debug + Send + Sync {
    fn columns(&self) -> &Projection;
    /// One result per row of the batch.
    fn evaluate(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String>;
}

impl Snapshot {
    /// The ranges that a scan of all events that pass `filter` must read.
    pub fn scan_ranges(&self, filter: &Filter, columns: &Projection) -> Result<Vec<ScanRange>> {
        let row_sets = self.row_sets(filter)?;
        let rows_max = if columns.properties { WIDE_ROWS_MAX } else { SCAN_ROWS_MAX };
        cut(&row_sets, unordered_ranges(&row_sets, filter)?, rows_max)
    }

    /// As [`Snapshot::scan_ranges`], but each range of a segment has one event and is sorted by
    /// timestamp. Ranges of memtable blocks are not.
    pub fn sorted_scan_ranges(&self, filter: &Filter) -> Result<Vec<ScanRange>> {
        let row_sets = self.row_sets(filter)?;
        cut(&row_sets, sorted_ranges(&row_sets, filter)?, SCAN_ROWS_MAX)
    }
}

fn cut(
    row_sets: &[RowSet],
    ranges: Vec<crate::read::filter::RowRange>,
    rows_max: usize,
) -> Result<Vec<ScanRange>> {
    let mut scan_ranges = Vec::new();
    for range in ranges {
        let mut start = range.rows.start;
        while start < range.rows.end {
            let rows = start..range.rows.end.min(start + rows_max);
            start = rows.end;
            let (row_set, event) = (row_sets[range.row_set].clone(), range.event.clone());
            scan_ranges.push(ScanRange { row_set, rows, event });
        }
    }
    Ok(scan_ranges)
}

impl ScanRange {
    /// Set if all rows have this event and are sorted by timestamp.
    pub fn event(&self) -> Option<&str> {
        self.event.as_deref()
    }

    /// An upper bound of the matching events.
    pub fn rows_max(&self) -> usize {
        self.rows.len()
    }

    pub fn read(&self, filter: &Filter, columns: &Projection) -> Result<Batch> {
        let ScanRange { row_set, rows, event } = self;
        let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
        let selection = if filter.keeps_every_row(row_set, &times, event.as_deref()) {
            RowSelection::All
        } else {
            let mask = filter.mask(row_set, rows.clone(), &times, event.as_deref())?;
            let selected = mask.iter().enumerate().filter(|(_, passes)| **passes);
            RowSelection::Some(selected.map(|(at, _)| at).collect())
        };
        Batch::read(row_set, rows, columns, &selection, times)
    }
}

/// Which rows of a range are selected, counted from its first row.
pub(crate) enum RowSelection {
    All,
    Some(Vec<usize>),
}

impl RowSelection {
    fn count(&self, rows: usize) -> usize {
        match self {
            RowSelection::All => rows,
            RowSelection::Some(selection) => selection.len(),
        }
    }

    fn pick<T: Copy>(&self, from: Cow<'_, [T]>) -> Vec<T> {
        match self {
            RowSelection::Some(selection) if selection.len() < from.len() => {
                selection.iter().map(|at| from[*at]).collect()
            }
            _ => from.into_owned(),
        }
    }
}

impl Batch {
    pub(crate) fn read(
        row_set: &RowSet,
        rows: &Range<usize>,
        columns: &Projection,
        selection: &RowSelection,
        times: Cow<'_, [i64]>,
    ) -> Result<Batch> {
        let count = selection.count(rows.len());
        if count == 0 {
            let columns = vec![Column::absent(0); columns.keys.len()];
            return Ok(Batch { columns, ..Batch::default() });
        }
        let column = |key: &ColumnKey| -> Result<Column> {
            let Column { codes, dictionary } = key.column(row_set, rows.clone())?;
            Ok(Column { codes: selection.pick(codes.into()), dictionary })
        };
        let mut batch = Batch {
            rows: count,
            timestamps: selection.pick(times),
            distinct_nos: selection.pick(row_set.distinct_nos(rows.clone())?),
            columns: columns.keys.iter().map(column).collect::<Result<_>>()?,
            ..Batch::default()
        };
        if columns.created_at {
            batch.created_at = selection.pick(row_set.ints(IntColumn::CreatedAt, rows.clone())?);
        }
        if columns.uuids {
            batch.uuids = selection.pick(row_set.uuids(rows.clone())?);
        }
        if columns.properties {
            let selected = selection.pick(rows.clone().collect::<Vec<usize>>().into());
            let events = row_set.event_rows(&selected)?;
            batch.properties = events.into_iter().map(|event| event.properties).collect();
        }
        Ok(batch)
    }
}
