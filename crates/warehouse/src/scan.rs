//! Columns of many events, for whoever counts instead of listing.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::Result;
use crate::dictionary::Column;
use crate::fields::Number;
use crate::filter::{Filter, Key, pieces, stretches};
use crate::slab::Slab;
use crate::snapshot::Snapshot;

/// Rows that are read at once; what a reader holds is this many times its columns.
pub(crate) const PART_ROWS_MAX: usize = 128 << 10;
/// Whole properties are wide.
const WIDE_ROWS_MAX: usize = 4 << 10;

/// What is read beside time and distinct id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub keys: Vec<Key>,
    pub uuids: bool,
    pub created_at: bool,
    /// The JSON of all properties.
    pub properties: bool,
}

/// Rows that are read together. Parts can be read in any order and by several threads.
#[derive(Clone, Debug)]
pub struct Part {
    slab: Slab,
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
    /// As many as keys were asked for, in their order.
    pub columns: Vec<Column>,
    /// Empty unless asked for, as are the next two.
    pub uuids: Vec<[u8; 16]>,
    pub created_at: Vec<i64>,
    pub properties: Vec<String>,
}

/// A condition that needs several columns of a row at once.
pub trait RowTest: std::fmt::Debug + Send + Sync {
    fn columns(&self) -> &Columns;
    /// One answer for each row.
    fn keep(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String>;
}

impl Snapshot {
    /// What must be read to see every event that passes `filter`.
    pub fn parts(&self, filter: &Filter, columns: &Columns) -> Result<Vec<Part>> {
        let slabs = self.slabs(filter)?;
        let rows_max = if columns.properties { WIDE_ROWS_MAX } else { PART_ROWS_MAX };
        cut(&slabs, pieces(&slabs, filter)?, rows_max)
    }

    /// As [`Snapshot::parts`], but each is of one event and in the order of time, except those that
    /// are still in memory.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<Part>> {
        let slabs = self.slabs(filter)?;
        cut(&slabs, stretches(&slabs, filter)?, PART_ROWS_MAX)
    }
}

fn cut(slabs: &[Slab], found: Vec<crate::filter::Stretch>, rows_max: usize) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for stretch in found {
        let mut start = stretch.rows.start;
        while start < stretch.rows.end {
            let rows = start..stretch.rows.end.min(start + rows_max);
            start = rows.end;
            let (slab, event) = (slabs[stretch.slab].clone(), stretch.event.clone());
            parts.push(Part { slab, rows, event });
        }
    }
    Ok(parts)
}

impl Part {
    /// Set when all rows are of one event and in the order of time.
    pub fn event(&self) -> Option<&str> {
        self.event.as_deref()
    }

    /// At most so many events pass.
    pub fn rows_max(&self) -> usize {
        self.rows.len()
    }

    pub fn read(&self, filter: &Filter, columns: &Columns) -> Result<Batch> {
        let Part { slab, rows, event } = self;
        let times = slab.numbers(Number::Timestamp, rows.clone())?;
        let wanted = if filter.keeps_all(slab, &times, event.as_deref()) {
            Wanted::All
        } else {
            let keep = filter.keep(slab, rows.clone(), &times, event.as_deref())?;
            let kept = keep.iter().enumerate().filter(|(_, keep)| **keep);
            Wanted::Some(kept.map(|(at, _)| at).collect())
        };
        Batch::read(slab, rows, columns, &wanted, times)
    }
}

/// Which of the rows that are looked at, counted from the first.
pub(crate) enum Wanted {
    All,
    Some(Vec<usize>),
}

impl Wanted {
    fn count(&self, rows: usize) -> usize {
        match self {
            Wanted::All => rows,
            Wanted::Some(wanted) => wanted.len(),
        }
    }

    fn pick<T: Copy>(&self, from: Cow<'_, [T]>) -> Vec<T> {
        match self {
            Wanted::Some(wanted) if wanted.len() < from.len() => {
                wanted.iter().map(|at| from[*at]).collect()
            }
            _ => from.into_owned(),
        }
    }
}

impl Batch {
    pub(crate) fn read(
        slab: &Slab,
        rows: &Range<usize>,
        columns: &Columns,
        wanted: &Wanted,
        times: Cow<'_, [i64]>,
    ) -> Result<Batch> {
        let count = wanted.count(rows.len());
        if count == 0 {
            let columns = vec![Column::absent(0); columns.keys.len()];
            return Ok(Batch { columns, ..Batch::default() });
        }
        let column = |key: &Key| -> Result<Column> {
            let Column { codes, dictionary } = key.column(slab, rows.clone())?;
            Ok(Column { codes: wanted.pick(codes.into()), dictionary })
        };
        let mut batch = Batch {
            rows: count,
            timestamps: wanted.pick(times),
            distinct_nos: wanted.pick(slab.distinct_nos(rows.clone())?),
            columns: columns.keys.iter().map(column).collect::<Result<_>>()?,
            ..Batch::default()
        };
        if columns.created_at {
            batch.created_at = wanted.pick(slab.numbers(Number::CreatedAt, rows.clone())?);
        }
        if columns.uuids {
            batch.uuids = wanted.pick(slab.uuids(rows.clone())?);
        }
        if columns.properties {
            let own = wanted.pick(rows.clone().collect::<Vec<usize>>().into());
            let events = slab.event_rows(&own)?;
            batch.properties = events.into_iter().map(|event| event.properties).collect();
        }
        Ok(batch)
    }
}
