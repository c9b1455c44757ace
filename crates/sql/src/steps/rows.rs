//! Rows that come from nowhere else: `numbers(n)`, and what was computed before.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::stream;

use super::{Step, StepExec};

#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    count: u64,
}

/// 0 up to `count`, made as they are asked for.
pub(crate) fn numbers(count: u64) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, true)]));
    StepExec::plan(Numbers { schema: schema.clone(), count }, Vec::new(), schema, 1)
}

impl Step for Numbers {
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
        let (schema, count) = (self.schema.clone(), self.count);
        let out = stream::unfold(0, move |next| {
            let schema = schema.clone();
            async move {
                // The engine's other tasks get their turn.
                tokio::task::yield_now().await;
                let end = next + rows_max.min(count - next);
                let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
                let batch = RecordBatch::try_new(schema, vec![numbers]);
                (next < end).then(|| (batch.map_err(Into::into), end))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

#[derive(Debug)]
struct Held {
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
}

/// Their memory is counted where they are kept.
pub(crate) fn held(schema: SchemaRef, batches: Arc<Vec<RecordBatch>>) -> Arc<dyn ExecutionPlan> {
    StepExec::plan(Held { schema: schema.clone(), batches }, Vec::new(), schema, 1)
}

impl Step for Held {
    fn name(&self) -> &'static str {
        "held"
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
