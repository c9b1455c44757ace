//! Physical operators that DataFusion does not have, or has with other semantics.

pub(crate) mod array_join;
pub(crate) mod filter;
pub(crate) mod group_by;
pub(crate) mod limit_by;
pub(crate) mod limit_with_ties;
pub(crate) mod row_sources;
pub(crate) mod row_width;
pub(crate) mod set_operation;
pub(crate) mod window;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures_util::StreamExt;

use crate::cancellation::Cancellation;

/// Computes one partition of its output from the same partition of its inputs.
pub(crate) trait Operator: Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What it reads, for who reads the plan.
    fn details(&self) -> String {
        String::new()
    }

    fn start(
        &self,
        partition: usize,
        inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// Yields and checks for cancellation between any two batches: an operator that drops most batches, or
/// emits many for one, would never release its thread.
fn with_yields(
    input: SendableRecordBatchStream,
    cancellation: Arc<Cancellation>,
) -> SendableRecordBatchStream {
    let schema = input.schema();
    let out = input.then(move |batch| {
        let cancellation = cancellation.clone();
        async move {
            tokio::task::coop::consume_budget().await;
            cancellation.check()?;
            batch
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, out))
}

#[derive(Debug)]
struct Cooperative;

impl Operator for Cooperative {
    fn name(&self) -> &'static str {
        "cooperative"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(inputs.remove(0))
    }
}

/// Wraps a DataFusion operator that emits many rows for a few, such as a join, so that it yields.
pub(crate) fn cooperative(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let partitions = input.output_partitioning().partition_count();
    OperatorExec::plan(Cooperative, vec![input], schema, partitions)
}

#[derive(Debug)]
pub(crate) struct OperatorExec {
    operator: Arc<dyn Operator>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    /// Rows that all partitions have emitted.
    rows: Arc<AtomicU64>,
}

impl OperatorExec {
    /// All inputs must have `partitions` partitions.
    pub(crate) fn plan(
        operator: impl Operator,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
        partitions: usize,
    ) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (operator, properties) = (Arc::new(operator), Arc::new(properties));
        Arc::new(Self { operator, inputs, properties, rows: Arc::default() })
    }
}

impl DisplayAs for OperatorExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = self.rows.load(Ordering::Relaxed);
        write!(f, "{}: {rows} rows", self.operator.name())?;
        match self.operator.details() {
            details if details.is_empty() => Ok(()),
            details => write!(f, ", {details}"),
        }
    }
}

impl ExecutionPlan for OperatorExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (operator, properties) = (self.operator.clone(), self.properties.clone());
        Ok(Arc::new(Self { operator, inputs, properties, rows: self.rows.clone() }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let cancellation =
            context.session_config().get_extension::<Cancellation>().unwrap_or_default();
        let inputs = self.inputs.iter().map(|input| {
            Ok(with_yields(input.execute(partition, context.clone())?, cancellation.clone()))
        });
        let out = self.operator.start(partition, inputs.collect::<Result<_>>()?, &context)?;
        let (schema, rows) = (out.schema(), self.rows.clone());
        let out = with_yields(out, cancellation).inspect(move |batch| {
            let emitted = batch.as_ref().map_or(0, |batch| batch.num_rows());
            rows.fetch_add(emitted as u64, Ordering::Relaxed);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)))
    }
}
