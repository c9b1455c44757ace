//! Filters rows by a condition. DataFusion's filter coalesces rows into full batches, which costs
//! more than it gains for dictionary-encoded columns.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::filter_record_batch;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures_util::{StreamExt, TryStreamExt};

use super::{Operator, OperatorExec};

#[derive(Debug)]
struct Filter {
    condition: Arc<dyn PhysicalExpr>,
}

/// The condition must not be null.
pub(crate) fn filter(
    input: Arc<dyn ExecutionPlan>,
    condition: Arc<dyn PhysicalExpr>,
) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let partitions = input.output_partitioning().partition_count();
    OperatorExec::plan(Filter { condition }, vec![input], schema, partitions)
}

impl Operator for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = inputs.remove(0);
        let schema = input.schema();
        let condition = self.condition.clone();
        let out = input.map(move |batch| {
            let batch = batch?;
            let holds = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            Ok(filter_record_batch(&batch, holds.as_boolean())?)
        });
        let out = out.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)))
    }
}
