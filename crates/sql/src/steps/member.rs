//! `INTERSECT` and `EXCEPT`: rows of the left that are, or are not, on the right. A row of the right
//! stands for one of the left, as often as it is there.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::StreamExt;

use super::Step;
use super::first::{Seen, keep, later};

#[derive(Debug)]
pub(crate) struct Member {
    pub schema: SchemaRef,
    /// Whether rows of the right stay, or go.
    pub wanted: bool,
}

impl Step for Member {
    fn name(&self) -> &'static str {
        "member"
    }

    fn start(
        &self,
        _: usize,
        inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let types = self.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut seen = Seen::new(types, context.memory_pool())?;
        let (schema, wanted) = (self.schema.clone(), self.wanted);
        let mut inputs = inputs.into_iter();
        let (Some(left), Some(mut right)) = (inputs.next(), inputs.next()) else {
            return datafusion_common::internal_err!("two inputs");
        };
        Ok(later(self.schema.clone(), async move {
            while let Some(batch) = right.next().await.transpose()? {
                seen.count(batch.columns(), |_| ())?;
            }
            let out = left.map(move |batch| {
                let batch = batch?;
                let has = seen.take(batch.columns())?;
                keep(&batch, has.into_iter().map(|has| has == wanted).collect())
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)) as SendableRecordBatchStream)
        }))
    }
}
