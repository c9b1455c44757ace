//! Steps of a query that the engine does not have, or has with another meaning.

pub(crate) mod explode;
pub(crate) mod filter;
pub(crate) mod first;
pub(crate) mod member;
pub(crate) mod numbered;
pub(crate) mod rows;
pub(crate) mod width;
pub(crate) mod window;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

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

use crate::stop::Stop;

/// How a step makes one partition of its rows of the same partition of its inputs.
pub(crate) trait Step: Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn start(
        &self,
        partition: usize,
        inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// A step that reads and drops batches, or makes many of one, would never let go of its thread:
/// between any two of them others get their turn, and a query that nobody waits for ends.
fn with_pauses(input: SendableRecordBatchStream, stop: Arc<Stop>) -> SendableRecordBatchStream {
    let schema = input.schema();
    let out = input.then(move |batch| {
        let stop = stop.clone();
        async move {
            tokio::task::coop::consume_budget().await;
            stop.check()?;
            batch
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, out))
}

#[derive(Debug)]
struct Pause;

impl Step for Pause {
    fn name(&self) -> &'static str {
        "pause"
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

/// The same rows; for operators of the engine that make many rows of a few.
pub(crate) fn paused(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let partitions = input.output_partitioning().partition_count();
    StepExec::plan(Pause, vec![input], schema, partitions)
}

#[derive(Debug)]
pub(crate) struct StepExec {
    step: Arc<dyn Step>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl StepExec {
    /// All inputs have as many partitions as the step.
    pub(crate) fn plan(
        step: impl Step,
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
        Arc::new(Self { step: Arc::new(step), inputs, properties: Arc::new(properties) })
    }
}

impl DisplayAs for StepExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.step.name())
    }
}

impl ExecutionPlan for StepExec {
    fn name(&self) -> &str {
        self.step.name()
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
        let (step, properties) = (self.step.clone(), self.properties.clone());
        Ok(Arc::new(Self { step, inputs, properties }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let stop = context.session_config().get_extension::<Stop>().unwrap_or_default();
        let inputs = self
            .inputs
            .iter()
            .map(|input| Ok(with_pauses(input.execute(partition, context.clone())?, stop.clone())));
        let out = self.step.start(partition, inputs.collect::<Result<_>>()?, &context)?;
        Ok(with_pauses(out, stop))
    }
}
