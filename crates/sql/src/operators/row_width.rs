//! The width of rows in bytes. Joins and `ARRAY JOIN` repeat rows where no memory is tracked.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures_util::StreamExt;

use super::{Operator, OperatorExec};
use crate::error::Error;

/// The widest row of a join's input: a join may repeat it for each row of a batch.
const JOINED_BYTES_MAX: usize = 128 * 1024;

/// Bytes of the strings and arrays of each row; none if there are none.
pub(crate) fn widths(columns: &[ArrayRef]) -> Option<Vec<usize>> {
    let rows = columns.first()?.len();
    let mut widths: Option<Vec<usize>> = None;
    for column in columns {
        add(column, widths.get_or_insert_with(|| vec![0; rows]));
    }
    widths.filter(|widths| widths.iter().any(|width| *width > 0))
}

fn add(column: &ArrayRef, widths: &mut [usize]) {
    let mut ends = |offsets: &[i32], bytes: usize| {
        for (width, pair) in widths.iter_mut().zip(offsets.windows(2)) {
            *width += (pair[1] - pair[0]) as usize * bytes;
        }
    };
    match column.data_type() {
        DataType::Utf8 => ends(column.as_string::<i32>().value_offsets(), 1),
        DataType::Binary => ends(column.as_binary::<i32>().value_offsets(), 1),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let elements = list.values().len().max(1);
            ends(list.value_offsets(), list.values().get_array_memory_size() / elements + 1);
        }
        DataType::Struct(_) => {
            column.as_struct().columns().iter().for_each(|member| add(member, widths));
        }
        _ => {}
    }
}

#[derive(Debug)]
struct RowWidthLimit;

/// Fails the query when a row is too wide to be joined.
pub(crate) fn limit_row_width(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let wide = |ty: &DataType| ty.is_nested() || matches!(ty, DataType::Utf8 | DataType::Binary);
    if !schema.fields().iter().any(|field| wide(field.data_type())) {
        return input;
    }
    let partitions = input.output_partitioning().partition_count();
    OperatorExec::plan(RowWidthLimit, vec![input], schema, partitions)
}

fn check(batch: &RecordBatch) -> Result<()> {
    let widest = widths(batch.columns()).and_then(|widths| widths.into_iter().max());
    if widest.is_some_and(|widest| widest > JOINED_BYTES_MAX) {
        let message = format!(
            "A row of a join's input may have {JOINED_BYTES_MAX} bytes at most; select fewer columns"
        );
        return Err(Error::engine("too_large_value", message).into());
    }
    Ok(())
}

impl Operator for RowWidthLimit {
    fn name(&self) -> &'static str {
        "row width limit"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = inputs.remove(0);
        let schema = input.schema();
        let out = input.map(|batch| {
            let batch = batch?;
            check(&batch)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)))
    }
}
