//! Evaluates a window function over the frame of each row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, UInt64Array, new_empty_array,
};
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_expr::Accumulator;

use super::frame::{Frame, RowGroups};
use crate::aggregates::group_function::{Engine, GroupFunction};
use crate::aggregates::{LoweredAggregate, Strategy, counted_rows, fill_empty, filter_arrays};
use crate::cancellation::Cancellation;
use crate::error::Result;
use crate::operators::row_width::widths;

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub function: Function,
    /// Columns of the input.
    pub args: Vec<usize>,
    /// An aggregate's `FILTER`: a boolean column of the input.
    pub filter: Option<usize>,
    pub frame: Frame,
    pub ty: DataType,
    /// The value for a row outside of the frame.
    pub empty: ScalarValue,
}

#[derive(Clone, Debug)]
pub(crate) enum Function {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    /// The number of the bucket, of so many that are as equal as possible.
    Ntile(u64),
    /// `lag`, or `lead` if negative; the second argument is the default.
    Offset(i64),
    /// The same, limited to rows of the frame.
    OffsetInFrame(i64),
    First,
    Last,
    Nth(u64),
    Aggregate(LoweredAggregate),
}

/// Limits of a call.
#[derive(Clone, Copy)]
pub(super) struct CallLimits<'a> {
    pub cancellation: &'a Cancellation,
    pub reservation: &'a MemoryReservation,
}

impl CallLimits<'_> {
    /// Copies values of other rows. Many rows may copy the same large value, so they are reserved.
    fn take(&self, from: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef> {
        if let Some(widths) = widths(std::slice::from_ref(from)) {
            let copied: usize = rows.iter().flatten().map(|row| widths[row as usize]).sum();
            self.reservation.try_grow(copied)?;
        }
        Ok(take(from, rows, None)?)
    }
}

/// Copies of a value in memory: the scalar, and the array of all.
const COPIES: usize = 2;

/// The size of a value that may be large.
fn bytes(value: &ScalarValue) -> Result<usize> {
    Ok(match value {
        ScalarValue::List(list) => list.to_data().get_slice_memory_size()?,
        ScalarValue::Struct(members) => members.to_data().get_slice_memory_size()?,
        ScalarValue::Utf8(Some(text)) => text.len(),
        _ => 0,
    })
}

/// Rows between two checks for cancellation.
const ROWS_PER_CHECK: usize = 256;

impl Call {
    pub(super) fn run(
        &self,
        block: &RecordBatch,
        groups: &RowGroups,
        ranges: &[Range<usize>],
        limits: CallLimits<'_>,
    ) -> Result<ArrayRef> {
        let args: Vec<ArrayRef> = self.args.iter().map(|arg| block.column(*arg).clone()).collect();
        let each = || {
            groups.partitions.iter().flat_map(|range| range.clone().map(move |row| (range, row)))
        };
        let result: ArrayRef = match &self.function {
            Function::RowNumber => Arc::new(UInt64Array::from_iter_values(
                each().map(|(partition, row)| (row - partition.start + 1) as u64),
            )),
            Function::Rank => {
                let ranks =
                    each().map(|(range, row)| (groups.peers[row].start - range.start + 1) as u64);
                Arc::new(UInt64Array::from_iter_values(ranks))
            }
            Function::DenseRank => {
                let mut rank = 0;
                let ranks = each().map(|(partition, row)| {
                    rank = match (row == partition.start, groups.peers[row].start == row) {
                        (true, _) => 1,
                        (false, true) => rank + 1,
                        (false, false) => rank,
                    };
                    rank
                });
                Arc::new(UInt64Array::from_iter_values(ranks))
            }
            Function::PercentRank => {
                let ranks = each().map(|(partition, row)| {
                    let before = groups.peers[row].start - partition.start;
                    before as f64 / (partition.len() - 1).max(1) as f64
                });
                Arc::new(Float64Array::from_iter_values(ranks))
            }
            Function::CumeDist => {
                let shares = each().map(|(partition, row)| {
                    (groups.peers[row].end - partition.start) as f64 / partition.len() as f64
                });
                Arc::new(Float64Array::from_iter_values(shares))
            }
            Function::Ntile(buckets) => {
                let numbers = each().map(|(partition, row)| {
                    let (rows, at) = (partition.len() as u64, (row - partition.start) as u64);
                    let (small, larger) = (rows / buckets, rows % buckets);
                    // The first buckets have a row more.
                    let in_larger = larger * (small + 1);
                    match at < in_larger {
                        true => at / (small + 1) + 1,
                        false => larger + (at - in_larger) / small.max(1) + 1,
                    }
                });
                Arc::new(UInt64Array::from_iter_values(numbers))
            }
            Function::Offset(offset) | Function::OffsetInFrame(offset) => {
                let framed = matches!(self.function, Function::OffsetInFrame(_));
                let rows: UInt64Array = each()
                    .map(|(partition, row)| {
                        let at = (row as i64).checked_sub(*offset)?;
                        let at = usize::try_from(at).ok()?;
                        let visible = if framed { &ranges[row] } else { partition };
                        visible.contains(&at).then_some(at as u64)
                    })
                    .collect();
                let values = limits.take(&args[0], &rows)?;
                match args.get(1) {
                    None => values,
                    Some(default) => {
                        let outside: BooleanArray =
                            rows.iter().map(|row| Some(row.is_none())).collect();
                        zip(&outside, default, &values)?
                    }
                }
            }
            // Like all aggregates, `first_value` and `last_value` skip nulls.
            Function::First => {
                let next = next_valid(&args[0]);
                let rows = ranges.iter().map(|range| {
                    let at = next.get(range.start).copied()?;
                    range.contains(&at).then_some(at as u64)
                });
                limits.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Last => {
                let last = last_valid(&args[0]);
                let rows = ranges.iter().map(|range| {
                    let at = last.get(range.end.checked_sub(1)?).copied().flatten()?;
                    range.contains(&at).then_some(at as u64)
                });
                limits.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Nth(nth) => {
                let rows = ranges.iter().map(|range| {
                    let at = range.start as u64 + nth.checked_sub(1)?;
                    (at < range.end as u64).then_some(at)
                });
                limits.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Aggregate(aggregate) => {
                let filter = self.filter.map(|filter| block.column(filter).as_boolean());
                return self.aggregate(aggregate, &args, filter, ranges, limits);
            }
        };
        fill_empty(&result, &self.ty, &self.empty)
    }

    fn aggregate(
        &self,
        aggregate: &LoweredAggregate,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        ranges: &[Range<usize>],
        limits: CallLimits<'_>,
    ) -> Result<ArrayRef> {
        let mut sliding = SlidingAggregate::new(aggregate)?;
        let mut values = Vec::with_capacity(ranges.len());
        let mut last: Option<(Range<usize>, ScalarValue)> = None;
        for (row, range) in ranges.iter().enumerate() {
            if row % ROWS_PER_CHECK == 0 {
                limits.cancellation.check()?;
            }
            let value = match &last {
                Some((same, value)) if same == range => value.clone(),
                _ => sliding.value(args, filter, range.clone())?,
            };
            limits.reservation.try_grow(bytes(&value)? * COPIES)?;
            last = Some((range.clone(), value.clone()));
            values.push(value);
        }
        if values.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        fill_empty(&ScalarValue::iter_to_array(values)?, &aggregate.ty, &aggregate.empty)
    }
}

/// An aggregate over a sliding frame.
enum SlidingAggregate {
    /// Evaluated again for each frame.
    Group(Arc<dyn GroupFunction>),
    /// Updated and retracted as the frame moves.
    Engine { engine: Engine, state: Box<dyn Accumulator>, range: Range<usize> },
}

impl SlidingAggregate {
    fn new(aggregate: &LoweredAggregate) -> Result<Self> {
        Ok(match &aggregate.strategy {
            Strategy::Group(function) => Self::Group(function.clone()),
            Strategy::Engine => {
                let engine = Engine { expr: aggregate.standalone()?, ty: aggregate.ty.clone() };
                let state = engine.sliding()?;
                Self::Engine { engine, state, range: 0..0 }
            }
        })
    }

    fn value(
        &mut self,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        range: Range<usize>,
    ) -> Result<ScalarValue> {
        let rows = |range: Range<usize>| -> Result<Vec<ArrayRef>> {
            let args: Vec<ArrayRef> =
                args.iter().map(|arg| arg.slice(range.start, range.len())).collect();
            let filter = filter.map(|filter| filter.slice(range.start, range.len()));
            let counts = counted_rows(&args, filter.as_ref())?;
            filter_arrays(&args, counts.as_ref())
        };
        match self {
            Self::Group(function) => function.evaluate(&rows(range)?),
            Self::Engine { engine, state, range: current } => {
                let grows = range.start >= current.start && range.end >= current.end;
                let drops = range.start > current.start;
                if !grows
                    || range.start >= current.end
                    || (drops && !state.supports_retract_batch())
                {
                    (*state, *current) = (engine.sliding()?, range.start..range.start);
                } else if drops {
                    state.retract_batch(&rows(current.start..range.start)?)?;
                }
                if range.end > current.end {
                    state.update_batch(&rows(current.end..range.end)?)?;
                }
                *current = range;
                Ok(state.evaluate()?)
            }
        }
    }
}

/// For each row, the first non-null row at or after it; the array's length if there is none.
fn next_valid(array: &ArrayRef) -> Vec<usize> {
    let mut next = array.len();
    let mut all: Vec<usize> = (0..array.len())
        .rev()
        .map(|row| {
            next = if array.is_valid(row) { row } else { next };
            next
        })
        .collect();
    all.reverse();
    all
}

/// For each row, the last non-null row at or before it.
fn last_valid(array: &ArrayRef) -> Vec<Option<usize>> {
    let mut last = None;
    let each = (0..array.len()).map(|row| {
        last = if array.is_valid(row) { Some(row) } else { last };
        last
    });
    each.collect()
}
