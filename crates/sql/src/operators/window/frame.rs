//! Window frames: the range of rows that a window function reads for each row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, partition};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use hogql::ast::{Bound, FrameUnit};

use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub unit: FrameUnit,
    pub start: Bound,
    pub end: Bound,
}

/// Partitions and peer groups of a block.
pub(super) struct RowGroups {
    pub partitions: Vec<Range<usize>>,
    /// The peer group of each row: the rows that are equal in order.
    pub peers: Vec<Range<usize>>,
}

impl RowGroups {
    pub(super) fn new(
        partitions: Vec<Range<usize>>,
        order: &[ArrayRef],
        rows: usize,
    ) -> Result<Self> {
        let mut peers = Vec::with_capacity(rows);
        for range in &partitions {
            if order.is_empty() {
                peers.extend(std::iter::repeat_n(range.clone(), range.len()));
                continue;
            }
            let keys: Vec<ArrayRef> =
                order.iter().map(|column| column.slice(range.start, range.len())).collect();
            for group in partition(&keys)?.ranges() {
                let group = range.start + group.start..range.start + group.end;
                peers.extend(std::iter::repeat_n(group.clone(), group.len()));
            }
        }
        Ok(Self { partitions, peers })
    }
}

impl Frame {
    /// The frame of each row, which may be empty.
    pub(super) fn ranges(
        &self,
        groups: &RowGroups,
        block: &RecordBatch,
        order: &[(usize, bool)],
    ) -> Result<Vec<Range<usize>>> {
        let offsets = [self.start, self.end]
            .iter()
            .any(|bound| matches!(bound, Bound::Preceding(_) | Bound::Following(_)));
        let keys = match (self.unit, order) {
            (FrameUnit::Range, [(column, descending)]) if offsets => {
                Some(Keys::new(block.column(*column), *descending)?)
            }
            (FrameUnit::Range, _) if offsets => {
                let message = "RANGE with an offset needs exactly one ORDER BY";
                return Err(Error::Invalid { message: message.to_owned(), span: None });
            }
            _ => None,
        };
        let mut ranges = Vec::with_capacity(block.num_rows());
        for partition in &groups.partitions {
            for row in partition.clone() {
                let peers = &groups.peers[row];
                let at = Row { row, partition, peers, keys: keys.as_ref() };
                let start = self.bound(self.start, &at, true);
                let start = start.clamp(partition.start, partition.end);
                let end = self.bound(self.end, &at, false);
                let end = end.clamp(partition.start, partition.end);
                ranges.push(start..end.max(start));
            }
        }
        Ok(ranges)
    }

    fn bound(&self, bound: Bound, at: &Row<'_>, starts: bool) -> usize {
        let side = |range: &Range<usize>| if starts { range.start } else { range.end };
        match (bound, self.unit) {
            (Bound::UnboundedPreceding, _) => at.partition.start,
            (Bound::UnboundedFollowing, _) => at.partition.end,
            (Bound::CurrentRow, FrameUnit::Rows) => at.row + usize::from(!starts),
            (Bound::CurrentRow, FrameUnit::Range) => side(at.peers),
            (Bound::Preceding(rows), FrameUnit::Rows) => {
                let rows = usize::try_from(rows).unwrap_or(usize::MAX);
                (at.row + usize::from(!starts)).saturating_sub(rows)
            }
            (Bound::Following(rows), FrameUnit::Rows) => {
                let rows = usize::try_from(rows).unwrap_or(usize::MAX);
                (at.row + usize::from(!starts)).saturating_add(rows)
            }
            (Bound::Preceding(by), FrameUnit::Range) => at
                .keys
                .and_then(|keys| keys.bound(at, -(by as f64), starts))
                .unwrap_or(side(at.peers)),
            (Bound::Following(by), FrameUnit::Range) => {
                at.keys.and_then(|keys| keys.bound(at, by as f64, starts)).unwrap_or(side(at.peers))
            }
        }
    }
}

struct Row<'a> {
    row: usize,
    partition: &'a Range<usize>,
    peers: &'a Range<usize>,
    keys: Option<&'a Keys>,
}

/// The order key as ascending numbers; none for null. The unit of a timestamp is the second.
struct Keys(Vec<Option<f64>>);

const MICROS: f64 = 1_000_000.0;

impl Keys {
    fn new(column: &ArrayRef, descending: bool) -> Result<Self> {
        let sign = if descending { -1.0 } else { 1.0 };
        let keys = match column.data_type() {
            DataType::Timestamp(..) => {
                let micros = cast(column, &DataType::Int64)?;
                let micros = micros.as_primitive::<Int64Type>();
                micros
                    .iter()
                    .map(|micros| micros.map(|micros| sign * micros as f64 / MICROS))
                    .collect()
            }
            DataType::Date32 => {
                let days = cast(&cast(column, &DataType::Int32)?, &DataType::Float64)?;
                days.as_primitive::<Float64Type>()
                    .iter()
                    .map(|day| day.map(|day| sign * day))
                    .collect()
            }
            ty if ty.is_numeric() => {
                let numbers = cast(column, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>();
                numbers.iter().map(|number| number.map(|number| sign * number)).collect()
            }
            _ => {
                let message = "RANGE with an offset needs an order of numbers or times";
                return Err(Error::Invalid { message: message.to_owned(), span: None });
            }
        };
        Ok(Self(keys))
    }

    /// The first row of the partition whose key is at least `by` from this row's; for the end of a
    /// frame, the first one past it.
    fn bound(&self, at: &Row<'_>, by: f64, starts: bool) -> Option<usize> {
        let value = self.0[at.row]? + by;
        let keys = &self.0[at.partition.clone()];
        // Nulls are contiguous, first or last.
        let first = keys.iter().position(Option::is_some)?;
        let count = keys[first..].iter().take_while(|key| key.is_some()).count();
        let offset = keys[first..first + count].partition_point(|key| match key {
            Some(key) if starts => *key < value,
            Some(key) => *key <= value,
            None => false,
        });
        Some(at.partition.start + first + offset)
    }
}
