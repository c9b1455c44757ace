//! A row for each element of its arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{kernels::zip::zip, take};
use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};

use super::Step;
use super::width::widths;
use crate::error::Error;

/// Texts and arrays that one batch repeats.
const REPEATED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The arrays are the last columns of the input; their elements are the last of the output.
#[derive(Debug)]
pub(crate) struct Explode {
    pub schema: SchemaRef,
    /// Of the elements' types: a row without elements stays with these. None if it goes.
    pub defaults: Option<Vec<ScalarValue>>,
    pub arrays: usize,
}

struct State {
    input: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    /// Of its rows, what they repeat for each element.
    widths: Option<Vec<usize>>,
    row: usize,
    /// Elements of `row` that are out already.
    done: usize,
}

impl Step for Explode {
    fn name(&self) -> &'static str {
        "explode"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let own = Self {
            schema: self.schema.clone(),
            defaults: self.defaults.clone(),
            arrays: self.arrays,
        };
        let state = State { input: inputs.remove(0), batch: None, widths: None, row: 0, done: 0 };
        let out = stream::try_unfold((own, state), move |(own, mut state)| async move {
            loop {
                let Some(batch) = state.batch.clone() else {
                    let Some(batch) = state.input.next().await.transpose()? else {
                        return Ok(None);
                    };
                    let plain = &batch.columns()[..batch.num_columns() - own.arrays];
                    state.widths = widths(plain);
                    (state.batch, state.row, state.done) = (Some(batch), 0, 0);
                    continue;
                };
                let out = own.piece(&batch, &mut state, rows_max)?;
                if state.row >= batch.num_rows() {
                    state.batch = None;
                }
                if out.num_rows() > 0 {
                    return Ok(Some((out, (own, state))));
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl Explode {
    fn piece(
        &self,
        batch: &RecordBatch,
        state: &mut State,
        rows_max: usize,
    ) -> Result<RecordBatch> {
        let (plain, arrays) = batch.columns().split_at(batch.num_columns() - self.arrays);
        let lists: Vec<_> = arrays.iter().map(|array| array.as_list::<i32>()).collect();
        let length = |row: usize| -> Result<usize> {
            let of = |list: &arrow::array::ListArray| {
                if list.is_null(row) { 0 } else { list.value_length(row) as usize }
            };
            let first = of(lists[0]);
            if lists.iter().any(|list| of(list) != first) {
                let message = "Arrays that are joined together need equal sizes";
                return Err(Error::engine("sizes_of_arrays_dont_match", message).into());
            }
            Ok(first)
        };
        let mut rows: Vec<u32> = Vec::with_capacity(rows_max);
        let mut places: Vec<Vec<Option<u64>>> = vec![Vec::with_capacity(rows_max); lists.len()];
        let mut room = REPEATED_BYTES_MAX;
        while state.row < batch.num_rows() && rows.len() < rows_max && room > 0 {
            let length = length(state.row)?;
            if length == 0 && self.defaults.is_some() {
                rows.push(state.row as u32);
                places.iter_mut().for_each(|places| places.push(None));
            }
            let mut count = (length - state.done).min(rows_max - rows.len());
            if let Some(width) = state.widths.as_ref().map(|widths| widths[state.row]) {
                count = count.min((room / width.max(1)).max(1));
                room = room.saturating_sub(count.max(1) * width);
            }
            rows.extend(std::iter::repeat_n(state.row as u32, count));
            for (places, list) in places.iter_mut().zip(&lists) {
                let from = list.value_offsets()[state.row] as usize + state.done;
                places.extend((from..from + count).map(|at| Some(at as u64)));
            }
            state.done += count;
            if state.done >= length {
                (state.row, state.done) = (state.row + 1, 0);
            }
        }
        let rows = UInt32Array::from(rows);
        let mut columns = plain
            .iter()
            .map(|column| Ok(take(column, &rows, None)?))
            .collect::<Result<Vec<ArrayRef>>>()?;
        for (no, (list, places)) in lists.iter().zip(places).enumerate() {
            let kept = places.iter().any(Option::is_none);
            let places = UInt64Array::from(places);
            let elements = take(list.values(), &places, None)?;
            columns.push(match &self.defaults {
                Some(defaults) if kept => {
                    let default = defaults[no].to_scalar()?;
                    let missing: BooleanArray =
                        places.iter().map(|at| Some(at.is_none())).collect();
                    zip(&missing, &default, &elements)?
                }
                _ => elements,
            });
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}
