//! Scans: columns of all matching events in batches, for aggregation.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::Result;
use crate::columns::{Column, IntColumn};
use crate::read::filter::{ColumnKey, Filter, sorted_ranges, unordered_ranges};
use crate::read::row_set::RowSet;
use crate::read::snapshot::Snapshot;
use crate::read::stats::ScanCounters;
use crate::segment::cache;
use crate::segment::read::columns::CACHED_READ_ROWS_MAX;

/// Rows per scan range: bounds the memory of a reader per column.
const SCAN_ROWS_MAX: usize = CACHED_READ_ROWS_MAX;

/// The columns to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    pub keys: Vec<ColumnKey>,
    /// Read unless these are false.
    pub timestamps: bool,
    pub distinct_nos: bool,
    pub uuids: bool,
    pub created_at: bool,
    /// The JSON of all properties.
    pub properties: bool,
}

impl Default for Projection {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            timestamps: true,
            distinct_nos: true,
            uuids: false,
            created_at: false,
            properties: false,
        }
    }
}

/// A unit of a scan. Ranges can be read in any order and by several threads.
#[derive(Clone, Debug)]
pub struct ScanRange {
    row_set: RowSet,
    rows: Range<usize>,
    /// Bounds of the timestamps.
    times: (i64, i64),
    event: Option<Arc<str>>,
    events_match: bool,
    counters: Arc<ScanCounters>,
}

/// Events that passed the filter.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub rows: usize,
    /// Microseconds since 1970. Empty if the projection leaves them out, as are the next.
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
    pub fn scan_ranges(&self, filter: &Filter) -> Result<Vec<ScanRange>> {
        let row_sets = self.row_sets(filter)?;
        self.cut(&row_sets, unordered_ranges(&row_sets, filter)?)
    }

    /// As [`Snapshot::scan_ranges`], but each range of a segment has one event and is sorted by
    /// timestamp. Ranges of memtable blocks are not.
    pub fn sorted_scan_ranges(&self, filter: &Filter) -> Result<Vec<ScanRange>> {
        let row_sets = self.row_sets(filter)?;
        self.cut(&row_sets, sorted_ranges(&row_sets, filter)?)
    }

    fn cut(
        &self,
        row_sets: &[RowSet],
        ranges: Vec<crate::read::filter::RowRange>,
    ) -> Result<Vec<ScanRange>> {
        let mut scan_ranges = Vec::new();
        for range in ranges {
            let mut start = range.rows.start;
            while start < range.rows.end {
                let rows = start..range.rows.end.min(start + SCAN_ROWS_MAX);
                start = rows.end;
                scan_ranges.push(ScanRange {
                    row_set: row_sets[range.row_set].clone(),
                    rows,
                    times: (range.from, range.to),
                    event: range.event.clone(),
                    events_match: range.events_match,
                    counters: self.counters.clone(),
                });
            }
        }
        let segment = |range: &ScanRange| range.row_set.segment_id();
        self.counters.add_segments(scan_ranges.iter().filter_map(segment));
        Ok(scan_ranges)
    }
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
        let selected = self.select(filter)?;
        self.count_matched(&selected);
        self.read_selected(&selected, columns)
    }

    /// The rows that pass the filter. The caller may drop some before it reads columns, and reports
    /// with [`ScanRange::count_matched`] how many are left.
    pub fn select(&self, filter: &Filter) -> Result<SelectedRows> {
        let ScanRange { row_set, rows, event, events_match, counters, .. } = self;
        let hits = cache::thread_hits();
        let keeps_all = |times| filter.keeps_every_row(row_set, *events_match, times);
        let selection = if keeps_all(self.times) {
            RowSelection::All
        } else {
            let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
            let bounds = times.first().copied().zip(times.last().copied());
            match bounds.filter(|_| event.is_some()) {
                Some(bounds) if keeps_all(bounds) => RowSelection::All,
                _ => {
                    let mask = filter.mask(row_set, rows.clone(), &times, *events_match)?;
                    let selected = mask.iter().enumerate().filter(|(_, passes)| **passes);
                    RowSelection::Some(selected.map(|(at, _)| at).collect())
                }
            }
        };
        counters.add_scanned(rows.len(), cache::thread_hits().saturating_sub(hits));
        Ok(SelectedRows { selection, range: rows.len() })
    }

    pub fn count_matched(&self, selected: &SelectedRows) {
        self.counters.add_matched(selected.len());
    }

    /// Columns of rows that [`ScanRange::select`] returned for this range.
    pub fn read_selected(&self, selected: &SelectedRows, columns: &Projection) -> Result<Batch> {
        let hits = cache::thread_hits();
        let batch = match &selected.selection {
            RowSelection::Some(rows) if rows.len() * POINT_READ_ONE_IN < selected.range => {
                let rows: Vec<usize> = rows.iter().map(|at| self.rows.start + at).collect();
                Batch::read_rows(&self.row_set, &rows, columns)?
            }
            selection => {
                let times = match columns.timestamps {
                    true => self.row_set.ints(IntColumn::Timestamp, self.rows.clone())?,
                    false => Cow::Borrowed(&[][..]),
                };
                Batch::read(&self.row_set, &self.rows, columns, selection, times)?
            }
        };
        self.counters.add_scanned(0, cache::thread_hits().saturating_sub(hits));
        Ok(batch)
    }
}

/// Fewer than one in so many rows of a range are read one by one: decoding whole columns costs more.
const POINT_READ_ONE_IN: usize = 256;

/// Rows of a scan range, ascending.
#[derive(Clone, Debug)]
pub struct SelectedRows {
    selection: RowSelection,
    /// Rows of the range.
    range: usize,
}

impl SelectedRows {
    /// These rows of a range of so many, counted from its first and ascending.
    pub fn of(rows: Vec<usize>, range: usize) -> Self {
        Self { selection: RowSelection::Some(rows), range }
    }

    pub fn len(&self) -> usize {
        self.selection.count(self.range)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Indexes in the range, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        let (all, some) = match &self.selection {
            RowSelection::All => (0..self.range, &[][..]),
            RowSelection::Some(rows) => (0..0, &rows[..]),
        };
        all.chain(some.iter().copied())
    }

    /// The rows in order, at most `rows_max` each; none without rows.
    pub fn chunks(&self, rows_max: usize) -> impl Iterator<Item = SelectedRows> {
        let whole = self.len() <= rows_max;
        let parts = if whole { Vec::new() } else { self.rows().collect() };
        let chunks = parts.len().div_ceil(rows_max.max(1));
        let all = (whole && !self.is_empty()).then(|| self.clone());
        let range = self.range;
        let chunk = move |no: usize| {
            let from = no * rows_max;
            Self::of(parts[from..parts.len().min(from + rows_max)].to_vec(), range)
        };
        all.into_iter().chain((0..chunks).map(chunk))
    }

    /// Drops the rows for which the mask, which has a value for each, is false.
    pub fn retain(&mut self, mask: impl IntoIterator<Item = bool>) {
        let kept = self.rows().zip(mask).filter(|(_, keep)| *keep).map(|(row, _)| row);
        let kept: Vec<usize> = kept.collect();
        if kept.len() < self.len() {
            self.selection = RowSelection::Some(kept);
        }
    }
}

/// Which rows of a range are selected, counted from its first row.
#[derive(Clone, Debug)]
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
            columns: columns.keys.iter().map(column).collect::<Result<_>>()?,
            ..Batch::default()
        };
        if columns.timestamps {
            batch.timestamps = selection.pick(times);
        }
        if columns.distinct_nos {
            batch.distinct_nos = selection.pick(row_set.distinct_nos(rows.clone())?);
        }
        if columns.created_at {
            batch.created_at = selection.pick(row_set.ints(IntColumn::CreatedAt, rows.clone())?);
        }
        if columns.uuids {
            batch.uuids = selection.pick(row_set.uuids(rows.clone())?);
        }
        if columns.properties {
            let selected = selection.pick(rows.clone().collect::<Vec<usize>>().into());
            batch.properties = row_set.properties_of(&selected)?;
        }
        Ok(batch)
    }

    /// Reads some rows of a row set, value by value.
    pub(crate) fn read_rows(
        row_set: &RowSet,
        rows: &[usize],
        columns: &Projection,
    ) -> Result<Batch> {
        if rows.is_empty() {
            let columns = vec![Column::absent(0); columns.keys.len()];
            return Ok(Batch { columns, ..Batch::default() });
        }
        let mut batch = Batch {
            rows: rows.len(),
            columns: columns
                .keys
                .iter()
                .map(|key| key.column_at(row_set, rows))
                .collect::<Result<_>>()?,
            ..Batch::default()
        };
        if columns.timestamps {
            batch.timestamps = row_set.ints_at(IntColumn::Timestamp, rows)?;
        }
        if columns.distinct_nos {
            batch.distinct_nos = row_set.distinct_nos_at(rows)?;
        }
        if columns.created_at {
            batch.created_at = row_set.ints_at(IntColumn::CreatedAt, rows)?;
        }
        if columns.uuids {
            batch.uuids = row_set.uuids_at(rows)?;
        }
        if columns.properties {
            batch.properties = row_set.properties_of(rows)?;
        }
        Ok(batch)
    }
}
