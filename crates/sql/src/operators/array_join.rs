//! `ARRAY JOIN`: emits a row for each element of a row's arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{kernels::zip::zip, take};
use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};

use super::Operator;
use super::row_width::widths;
use crate::error::Error;

/// Bytes of strings and arrays that one output batch repeats.
const REPEATED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The arrays are the last columns of the input; their elements are the last of the output.
#[derive(Debug)]
pub(crate) struct ArrayJoin {
    pub schema: SchemaRef,
    /// `LEFT ARRAY JOIN` keeps rows without elements, with these default values. None drops them.
    pub defaults: Option<Vec<ScalarValue>>,
    pub arrays: usize,
}

struct State {
    input: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    /// Bytes that each row of `batch` repeats for each element.
    widths: Option<Vec<usize>>,
    row: usize,
    /// Elements of `row` that were emitted.
    emitted: usize,
}

impl Operator for ArrayJoin {
    fn name(&self) -> &'static str {
        "array join"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let operator = Self {
            schema: self.schema.clone(),
            defaults: self.defaults.clone(),
            arrays: self.arrays,
        };
        let state =
            State { input: inputs.remove(0), batch: None, widths: None, row: 0, emitted: 0 };
        let out = stream::try_unfold((operator, state), move |(operator, mut state)| async move {
            loop {
                let Some(batch) = state.batch.clone() else {
                    let Some(batch) = state.input.next().await.transpose()? else {
                        return Ok(None);
                    };
                    let plain = &batch.columns()[..batch.num_columns() - operator.arrays];
                    state.widths = widths(plain);
                    (state.batch, state.row, state.emitted) = (Some(batch), 0, 0);
                    continue;
                };
                let out = operator.next_batch(&batch, &mut state, rows_max)?;
                if state.row >= batch.num_rows() {
                    state.batch = None;
                }
                if out.num_rows() > 0 {
                    return Ok(Some((out, (operator, state))));
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl ArrayJoin {
    fn next_batch(
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
                let message = "Arrays of one ARRAY JOIN need equal sizes";
                return Err(Error::engine("sizes_of_arrays_dont_match", message).into());
            }
            Ok(first)
        };
        let mut rows: Vec<u32> = Vec::with_capacity(rows_max);
        let mut elements: Vec<Vec<Option<u64>>> = vec![Vec::with_capacity(rows_max); lists.len()];
        let mut headroom = REPEATED_BYTES_MAX;
        while state.row < batch.num_rows() && rows.len() < rows_max && headroom > 0 {
            let length = length(state.row)?;
            if length == 0 && self.defaults.is_some() {
                rows.push(state.row as u32);
                elements.iter_mut().for_each(|elements| elements.push(None));
            }
            let mut count = (length - state.emitted).min(rows_max - rows.len());
            if let Some(width) = state.widths.as_ref().map(|widths| widths[state.row]) {
                count = count.min((headroom / width.max(1)).max(1));
                headroom = headroom.saturating_sub(count.max(1) * width);
            }
            rows.extend(std::iter::repeat_n(state.row as u32, count));
            for (elements, list) in elements.iter_mut().zip(&lists) {
                let from = list.value_offsets()[state.row] as usize + state.emitted;
                elements.extend((from..from + count).map(|at| Some(at as u64)));
            }
            state.emitted += count;
            if state.emitted >= length {
                (state.row, state.emitted) = (state.row + 1, 0);
            }
        }
        let rows = UInt32Array::from(rows);
        let mut columns = plain
            .iter()
            .map(|column| Ok(take(column, &rows, None)?))
            .collect::<Result<Vec<ArrayRef>>>()?;
        for (no, (list, indexes)) in lists.iter().zip(elements).enumerate() {
            let has_default = indexes.iter().any(Option::is_none);
            let indexes = UInt64Array::from(indexes);
            let elements = take(list.values(), &indexes, None)?;
            columns.push(match &self.defaults {
                Some(defaults) if has_default => {
                    let default = defaults[no].to_scalar()?;
                    let missing: BooleanArray =
                        indexes.iter().map(|at| Some(at.is_none())).collect();
                    zip(&missing, &default, &elements)?
                }
                _ => elements,
            });
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}
