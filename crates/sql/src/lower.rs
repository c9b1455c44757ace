//! A checked plan becomes the engine's operators, without a logical plan between: the plan says
//! what is computed, this says how.
//!
//! Subqueries that stand for values or sets see nothing of the rows around them, so they are run
//! first. Columns keep their dictionaries from a scan to the first step that computes something.

mod express;
mod group;
mod joins;
pub(crate) mod leaves;
mod numbers;
mod select;
mod subqueries;
mod texts;
mod windows;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::limit::GlobalLimitExec;
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::union::UnionExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use facts::ReadView;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hashbrown::HashSet;
use hogql::Span;
use hogql::ast::SetOp;
use hogql::plan::{Body, Output, Plan, Relation};
use hogql::types::{Kind, Type};
use model::CohortId;

use crate::error::Result;
use crate::scan::sessions::Sessions;
use crate::steps::first::{First, Seen};
use crate::steps::member::Member;
use crate::steps::{StepExec, rows};
use crate::stop::Stop;
use leaves::Layout;

/// Rows on their way, and what stands where.
#[derive(Clone)]
pub(crate) struct Stage {
    pub plan: Arc<dyn ExecutionPlan>,
    pub layout: Layout,
    /// Whether an outer join may have left nulls where a type has none.
    pub outer: bool,
}

pub(crate) struct Lower {
    pub world: Arc<ReadView>,
    pub context: Arc<eval::Context>,
    pub task: Arc<TaskContext>,
    pub stop: Stop,
    pub threads: usize,
    ctes: Vec<Cte>,
    found: HashMap<usize, Found>,
    sessions: Option<Arc<Sessions>>,
    /// For what is kept until the query ends.
    kept: MemoryReservation,
}

/// A common table expression that is read more than once is computed once.
struct Cte {
    relation: Arc<Plan>,
    no: usize,
    uses: usize,
    held: Option<(SchemaRef, Arc<Vec<RecordBatch>>)>,
}

/// What a subquery gave.
enum Found {
    Scalar(ScalarValue),
    Set(Arc<Members>),
}

struct Members {
    /// Of one element.
    ty: Type,
    seen: Seen,
}

impl Members {
    /// An element of several columns is a tuple.
    fn columns(&self, array: &ArrayRef) -> Vec<ArrayRef> {
        match self.ty.kind {
            Kind::Tuple(_) => array.as_struct().columns().to_vec(),
            _ => vec![array.clone()],
        }
    }
}

impl Lower {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        world: Arc<ReadView>,
        context: eval::Context,
        task: Arc<TaskContext>,
        stop: Stop,
        threads: usize,
    ) -> Self {
        let uses = subqueries::cte_uses(plan);
        let cte = |(no, uses)| Cte { relation: plan.clone(), no, uses, held: None };
        let kept = MemoryConsumer::new("kept").register(task.memory_pool());
        Self {
            world,
            context: Arc::new(context),
            task,
            stop,
            threads,
            ctes: uses.into_iter().enumerate().map(cte).collect(),
            found: HashMap::new(),
            sessions: None,
            kept,
        }
    }

    /// At most `fetch` of its rows are asked for.
    pub(crate) fn relation<'a>(
        &'a mut self,
        relation: &'a Relation,
        fetch: Option<u64>,
    ) -> BoxFuture<'a, Result<Stage>> {
        Box::pin(async move {
            match &relation.body {
                Body::Select(select) => self.select(select, fetch).await,
                Body::Set { first, rest } => self.set(&relation.columns, first, rest).await,
            }
        })
    }

    async fn set(
        &mut self,
        columns: &[Output],
        first: &Relation,
        rest: &[(SetOp, Relation)],
    ) -> Result<Stage> {
        let mut stage = self.operand(columns, first).await?;
        for (op, relation) in rest {
            let other = self.operand(columns, relation).await?;
            let schema = stage.plan.schema();
            stage.plan = match op {
                SetOp::UnionAll | SetOp::UnionDistinct => {
                    UnionExec::try_new(vec![stage.plan, other.plan])?
                }
                SetOp::Intersect | SetOp::Except => {
                    let wanted = *op == SetOp::Intersect;
                    let inputs = vec![one(stage.plan), one(other.plan)];
                    let step = Member { schema: schema.clone(), wanted };
                    StepExec::plan(step, inputs, schema.clone(), 1)
                }
            };
            if *op == SetOp::UnionDistinct {
                stage.plan = distinct(stage.plan, schema.fields().len());
            }
        }
        Ok(stage)
    }

    /// With the columns' types of the whole.
    async fn operand(&mut self, columns: &[Output], relation: &Relation) -> Result<Stage> {
        let stage = self.relation(relation, None).await?;
        let pairs = relation.columns.iter().zip(columns).enumerate();
        let exprs = pairs.map(|(no, (own, whole))| {
            self.cast(input(&stage.plan, no), &own.ty, &whole.ty, Span::default())
        });
        let exprs = exprs.collect::<Result<_>>()?;
        let plan = project(stage.plan, exprs)?;
        Ok(Stage { plan, ..stage })
    }

    /// All rows, kept in memory until the query ends.
    async fn collect(&mut self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>> {
        let mut stream = execute_stream(plan, self.task.clone())?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await.transpose()? {
            self.kept.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        Ok(batches)
    }

    async fn cte(&mut self, no: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let cte = &self.ctes[no];
        if let Some((schema, batches)) = &cte.held {
            return Ok(rows::held(schema.clone(), batches.clone()));
        }
        let (plan, uses) = (cte.relation.clone(), cte.uses);
        let stage = self.relation(&plan.ctes[self.ctes[no].no], None).await?;
        if uses < 2 {
            return Ok(stage.plan);
        }
        let schema = stage.plan.schema();
        let batches = Arc::new(self.collect(stage.plan).await?);
        self.ctes[no].held = Some((schema.clone(), batches.clone()));
        Ok(rows::held(schema, batches))
    }

    pub(crate) fn sessions_read(&self) -> Option<Arc<Sessions>> {
        self.sessions.clone()
    }

    pub(crate) fn set_sessions(&mut self, sessions: Arc<Sessions>) {
        self.sessions = Some(sessions);
    }

    /// Counts memory that stays in use until the query ends.
    pub(crate) fn keep(&self, bytes: usize) -> Result<()> {
        Ok(self.kept.try_grow(bytes)?)
    }

    /// Members' ids.
    fn cohort(&self, cohort: CohortId) -> Arc<HashSet<Vec<u8>>> {
        let members = self.world.cohorts.get(cohort).map(|cohort| &cohort.members);
        let persons = members.into_iter().flatten();
        let persons = persons.filter_map(|no| self.world.persons.person(no));
        Arc::new(persons.map(|person| person.uuid.as_bytes().to_vec()).collect())
    }
}

/// In one partition.
pub(crate) fn one(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

pub(crate) fn project(
    plan: Arc<dyn ExecutionPlan>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let named = exprs.into_iter().enumerate().map(|(no, expr)| (expr, no.to_string()));
    Ok(Arc::new(ProjectionExec::try_new(named.collect::<Vec<_>>(), plan)?))
}

/// Each row once, by its first columns.
fn distinct(plan: Arc<dyn ExecutionPlan>, columns: usize) -> Arc<dyn ExecutionPlan> {
    let schema = plan.schema();
    let step = First { schema: schema.clone(), keys: (0..columns).collect(), skip: 0, take: 1 };
    StepExec::plan(step, vec![one(plan)], schema, 1)
}

fn limit(plan: Arc<dyn ExecutionPlan>, skip: u64, fetch: Option<u64>) -> Arc<dyn ExecutionPlan> {
    if skip == 0 && fetch.is_none() {
        return plan;
    }
    let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Arc::new(GlobalLimitExec::new(one(plan), size(skip), fetch.map(size)))
}

/// A column of a projection that is yet to be made.
pub(crate) fn column(no: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(&no.to_string(), no))
}

/// A column of a plan.
pub(crate) fn input(plan: &Arc<dyn ExecutionPlan>, no: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(plan.schema().field(no).name(), no))
}

/// All its columns.
pub(crate) fn inputs(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    (0..plan.schema().fields().len()).map(|no| input(plan, no)).collect()
}

/// The schema of columns with these types, named by their places.
pub(crate) fn schema_of(
    types: impl IntoIterator<Item = arrow::datatypes::DataType>,
) -> Arc<Schema> {
    let fields = types.into_iter().enumerate();
    let fields = fields.map(|(no, ty)| arrow::datatypes::Field::new(no.to_string(), ty, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
