//! Row sources: `numbers`, and batches in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::stream;

use super::{Operator, OperatorExec};

#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    start: u64,
    count: u64,
}

/// `count` numbers from `start`, generated batch by batch. The last one must fit.
pub(crate) fn numbers(start: u64, count: u64) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, true)]));
    OperatorExec::plan(Numbers { schema: schema.clone(), start, count }, Vec::new(), schema, 1)
}

impl Operator for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size() as u64;
        let (schema, last) = (self.schema.clone(), self.start + self.count);
        let out = stream::unfold(self.start, move |next| {
            let schema = schema.clone();
            async move {
                // Lets other tasks of the runtime run.
                tokio::task::yield_now().await;
                let end = next + rows_max.min(last - next);
                let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
                let batch = RecordBatch::try_new(schema, vec![numbers]);
                (next < end).then(|| (batch.map_err(Into::into), end))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

#[derive(Debug)]
struct InMemory {
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
}

/// The caller has reserved the memory of the batches.
pub(crate) fn in_memory(
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
) -> Arc<dyn ExecutionPlan> {
    OperatorExec::plan(InMemory { schema: schema.clone(), batches }, Vec::new(), schema, 1)
}

impl Operator for InMemory {
    fn name(&self) -> &'static str {
        "in memory"
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.batches.clone();
        let out = stream::iter((0..batches.len()).map(move |at| Ok(batches[at].clone())));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}
