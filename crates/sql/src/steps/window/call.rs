//! What is computed over a frame.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array, new_empty_array,
};
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_expr::Accumulator;

use super::frame::{Frame, Places};
use crate::aggregates::whole::{Engine, Whole};
use crate::aggregates::{Fold, How, counted, finished, only};
use crate::error::Result;
use crate::steps::width::widths;
use crate::stop::Stop;

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub function: Function,
    /// Columns of the input.
    pub args: Vec<usize>,
    /// Only rows where this column holds are counted by an aggregate.
    pub filter: Option<usize>,
    pub frame: Frame,
    pub ty: DataType,
    /// What stands for a row outside of the frame.
    pub empty: ScalarValue,
}

#[derive(Clone, Debug)]
pub(crate) enum Function {
    RowNumber,
    Rank,
    DenseRank,
    /// So many rows before, or with a sign behind; the second argument stands for none.
    Neighbour(i64),
    /// The same, if that row is in the frame.
    InFrame(i64),
    First,
    Last,
    Nth(u64),
    Fold(Fold),
}

/// What a call may use.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub stop: &'a Stop,
    pub room: &'a MemoryReservation,
}

impl Bounds<'_> {
    /// Values of other rows; a large one may be wanted by many.
    fn take(&self, from: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef> {
        if let Some(widths) = widths(std::slice::from_ref(from)) {
            let wanted: usize = rows.iter().flatten().map(|row| widths[row as usize]).sum();
            self.room.try_grow(wanted)?;
        }
        Ok(take(from, rows, None)?)
    }
}

/// Values are held one by one and then in one piece.
const COPIES: usize = 2;

/// Of a value that may be large.
fn bytes(value: &ScalarValue) -> Result<usize> {
    Ok(match value {
        ScalarValue::List(list) => list.to_data().get_slice_memory_size()?,
        ScalarValue::Struct(members) => members.to_data().get_slice_memory_size()?,
        ScalarValue::Utf8(Some(text)) => text.len(),
        _ => 0,
    })
}

/// Rows between two looks whether anybody still waits.
const ROWS_PER_CHECK: usize = 256;

impl Call {
    pub(super) fn run(
        &self,
        block: &RecordBatch,
        places: &Places,
        ranges: &[Range<usize>],
        bounds: Bounds<'_>,
    ) -> Result<ArrayRef> {
        let args: Vec<ArrayRef> = self.args.iter().map(|arg| block.column(*arg).clone()).collect();
        let each =
            || places.partitions.iter().flat_map(|own| own.clone().map(move |row| (own, row)));
        let result: ArrayRef = match &self.function {
            Function::RowNumber => Arc::new(UInt64Array::from_iter_values(
                each().map(|(own, row)| (row - own.start + 1) as u64),
            )),
            Function::Rank => {
                let ranks =
                    each().map(|(own, row)| (places.peers[row].start - own.start + 1) as u64);
                Arc::new(UInt64Array::from_iter_values(ranks))
            }
            Function::DenseRank => {
                let mut rank = 0;
                let ranks = each().map(|(own, row)| {
                    rank = match (row == own.start, places.peers[row].start == row) {
                        (true, _) => 1,
                        (false, true) => rank + 1,
                        (false, false) => rank,
                    };
                    rank
                });
                Arc::new(UInt64Array::from_iter_values(ranks))
            }
            Function::Neighbour(offset) | Function::InFrame(offset) => {
                let framed = matches!(self.function, Function::InFrame(_));
                let rows: UInt64Array = each()
                    .map(|(own, row)| {
                        let at = (row as i64).checked_sub(*offset)?;
                        let at = usize::try_from(at).ok()?;
                        let seen = if framed { &ranges[row] } else { own };
                        seen.contains(&at).then_some(at as u64)
                    })
                    .collect();
                let found = bounds.take(&args[0], &rows)?;
                match args.get(1) {
                    None => found,
                    Some(default) => {
                        let outside: BooleanArray =
                            rows.iter().map(|row| Some(row.is_none())).collect();
                        zip(&outside, default, &found)?
                    }
                }
            }
            // Like every aggregate, these two skip nulls.
            Function::First => {
                let next = next_valid(&args[0]);
                let rows = ranges.iter().map(|range| {
                    let at = next.get(range.start).copied()?;
                    range.contains(&at).then_some(at as u64)
                });
                bounds.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Last => {
                let last = last_valid(&args[0]);
                let rows = ranges.iter().map(|range| {
                    let at = last.get(range.end.checked_sub(1)?).copied().flatten()?;
                    range.contains(&at).then_some(at as u64)
                });
                bounds.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Nth(nth) => {
                let rows = ranges.iter().map(|range| {
                    let at = range.start as u64 + nth.checked_sub(1)?;
                    (at < range.end as u64).then_some(at)
                });
                bounds.take(&args[0], &rows.collect::<UInt64Array>())?
            }
            Function::Fold(fold) => {
                let filter = self.filter.map(|filter| block.column(filter).as_boolean());
                return self.fold(fold, &args, filter, ranges, bounds);
            }
        };
        finished(&result, &self.ty, &self.empty)
    }

    fn fold(
        &self,
        fold: &Fold,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
        ranges: &[Range<usize>],
        bounds: Bounds<'_>,
    ) -> Result<ArrayRef> {
        let mut moving = Moving::new(fold)?;
        let mut values = Vec::with_capacity(ranges.len());
        let mut last: Option<(Range<usize>, ScalarValue)> = None;
        for (row, range) in ranges.iter().enumerate() {
            if row % ROWS_PER_CHECK == 0 {
                bounds.stop.check()?;
            }
            let value = match &last {
                Some((same, value)) if same == range => value.clone(),
                _ => moving.value(args, filter, range.clone())?,
            };
            bounds.room.try_grow(bytes(&value)? * COPIES)?;
            last = Some((range.clone(), value.clone()));
            values.push(value);
        }
        if values.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        finished(&ScalarValue::iter_to_array(values)?, &fold.ty, &fold.empty)
    }
}

/// An aggregate over a frame that moves on.
enum Moving {
    Whole(Arc<dyn Whole>),
    Engine { engine: Engine, state: Box<dyn Accumulator>, range: Range<usize> },
}

impl Moving {
    fn new(fold: &Fold) -> Result<Self> {
        Ok(match &fold.how {
            How::Whole(whole) => Self::Whole(whole.clone()),
            How::Engine => {
                let engine = Engine { expr: fold.alone()?, ty: fold.ty.clone() };
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
            let counts = counted(&args, filter.as_ref())?;
            only(&args, counts.as_ref())
        };
        match self {
            Self::Whole(whole) => whole.of(&rows(range)?),
            Self::Engine { engine, state, range: own } => {
                let grows = range.start >= own.start && range.end >= own.end;
                let drops = range.start > own.start;
                if !grows || range.start >= own.end || (drops && !state.supports_retract_batch()) {
                    (*state, *own) = (engine.sliding()?, range.start..range.start);
                } else if drops {
                    state.retract_batch(&rows(own.start..range.start)?)?;
                }
                if range.end > own.end {
                    state.update_batch(&rows(own.end..range.end)?)?;
                }
                *own = range;
                Ok(state.evaluate()?)
            }
        }
    }
}

/// The first row from each on that is not null; one behind the last if there is none.
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

fn last_valid(array: &ArrayRef) -> Vec<Option<usize>> {
    let mut last = None;
    let each = (0..array.len()).map(|row| {
        last = if array.is_valid(row) { Some(row) } else { last };
        last
    });
    each.collect()
}
