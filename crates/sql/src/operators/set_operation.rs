//! `INTERSECT` and `EXCEPT`, on multisets: each row of the right matches one equal row of the left.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::StreamExt;

use super::Operator;
use super::limit_by::{RowCounts, deferred_stream, filter_rows};

#[derive(Debug)]
pub(crate) struct SetOperation {
    pub schema: SchemaRef,
    /// Whether matching rows are kept (`INTERSECT`) or dropped (`EXCEPT`).
    pub keep_matching: bool,
}

impl Operator for SetOperation {
    fn name(&self) -> &'static str {
        "set operation"
    }

    fn start(
        &self,
        _: usize,
        inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let types = self.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut counts = RowCounts::new(types, context.memory_pool())?;
        let (schema, keep_matching) = (self.schema.clone(), self.keep_matching);
        let mut inputs = inputs.into_iter();
        let (Some(left), Some(mut right)) = (inputs.next(), inputs.next()) else {
            return datafusion_common::internal_err!("two inputs");
        };
        Ok(deferred_stream(self.schema.clone(), async move {
            while let Some(batch) = right.next().await.transpose()? {
                counts.add(batch.columns(), |_| ())?;
            }
            let out = left.map(move |batch| {
                let batch = batch?;
                let matches = counts.remove(batch.columns())?;
                let keep = matches.into_iter().map(|matches| matches == keep_matching);
                filter_rows(&batch, keep.collect())
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)) as SendableRecordBatchStream)
        }))
    }
}
