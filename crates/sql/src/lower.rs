//! Lowers a checked HogQL plan to DataFusion's physical operators, without a logical plan in between.
//!
//! Scalar subqueries and `IN` subqueries are not correlated, so they run first. Columns stay
//! dictionary-encoded from the scan to the first operator that computes something.

pub(crate) mod codes;
mod dependent_keys;
pub(crate) mod expressions;
pub(crate) mod global_codes;
mod group;
mod joins;
mod late;
pub(crate) mod leaves;
mod select;
mod string_interner;
mod subqueries;
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

use crate::cancellation::Cancellation;
use crate::error::Result;
use crate::execute::{Limits, Paths};
use crate::operators::limit_by::{LimitBy, RowCounts};
use crate::operators::set_operation::SetOperation;
use crate::operators::{OperatorExec, row_sources};
use crate::scan::sessions::Sessions;
use leaves::Layout;

/// A physical plan, and which of its columns holds what.
#[derive(Clone)]
pub(crate) struct Stage {
    pub plan: Arc<dyn ExecutionPlan>,
    pub layout: Layout,
    /// Whether an outer join may have put nulls into columns of non-nullable types.
    pub outer: bool,
}

/// What the reader of a relation needs of it.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// At most the first so many rows.
    pub rows: Option<u64>,
    /// Which columns; none means all. The others may have any value.
    pub columns: Option<Vec<bool>>,
}

impl Demand {
    pub(crate) const ALL: Self = Self { rows: None, columns: None };

    pub(crate) const fn rows(rows: u64) -> Self {
        Self { rows: Some(rows), columns: None }
    }

    fn needs(&self, column: usize) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.get(column).copied().unwrap_or(true))
    }
}

pub(crate) struct Lowering {
    pub view: Arc<ReadView>,
    pub context: Arc<eval::Context>,
    pub task: Arc<TaskContext>,
    pub cancellation: Cancellation,
    pub threads: usize,
    pub paths: Paths,
    ctes: Vec<Cte>,
    /// The names of all columns of sessions that the plan reads.
    pub session_columns: HashSet<&'static str>,
    /// Results of subqueries that ran, by the address of their relation in the plan, which does not
    /// move.
    subquery_results: HashMap<usize, SubqueryResult>,
    sessions: Option<Arc<Sessions>>,
    /// Plans that have run, in their order; empty unless they are to be shown.
    pub explained: Vec<(&'static str, Arc<dyn ExecutionPlan>)>,
    explains: bool,
    /// Memory that stays in use until the query ends.
    retained: MemoryReservation,
}

/// A common table expression. One that is read more than once is materialized.
struct Cte {
    plan: Arc<Plan>,
    index: usize,
    uses: usize,
    materialized: Option<(SchemaRef, Arc<Vec<RecordBatch>>)>,
}

/// The result of a subquery that ran before the rows that use it.
enum SubqueryResult {
    Scalar(ScalarValue),
    Set(Arc<SetMembers>),
}

struct SetMembers {
    /// The type of an element.
    ty: Type,
    counts: RowCounts,
}

impl SetMembers {
    /// The columns of an element; a tuple has one for each member.
    fn columns(&self, array: &ArrayRef) -> Vec<ArrayRef> {
        match self.ty.kind {
            Kind::Tuple(_) => array.as_struct().columns().to_vec(),
            _ => vec![array.clone()],
        }
    }
}

impl Lowering {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        view: Arc<ReadView>,
        context: eval::Context,
        task: Arc<TaskContext>,
        cancellation: Cancellation,
        limits: &Limits,
    ) -> Self {
        let reads = subqueries::PlanReads::of(plan);
        let cte = |(index, uses)| Cte { plan: plan.clone(), index, uses, materialized: None };
        let retained = MemoryConsumer::new("retained by the query").register(task.memory_pool());
        Self {
            view,
            context: Arc::new(context),
            task,
            cancellation,
            threads: limits.threads.max(1),
            paths: limits.paths,
            ctes: reads.cte_uses.into_iter().enumerate().map(cte).collect(),
            session_columns: reads.session_columns,
            subquery_results: HashMap::new(),
            sessions: None,
            explained: Vec::new(),
            explains: limits.explain,
            retained,
        }
    }

    /// Lowers a relation of which its reader needs so much.
    pub(crate) fn relation<'a>(
        &'a mut self,
        relation: &'a Relation,
        demand: Demand,
    ) -> BoxFuture<'a, Result<Stage>> {
        Box::pin(async move {
            match &relation.body {
                Body::Select(select) => self.select(select, &demand).await,
                Body::Set { first, rest } => self.set(&relation.columns, first, rest, demand).await,
            }
        })
    }

    async fn set(
        &mut self,
        columns: &[Output],
        first: &Relation,
        rest: &[(SetOp, Relation)],
        demand: Demand,
    ) -> Result<Stage> {
        // The other operations compare whole rows.
        let keeps_rows = rest.iter().all(|(op, _)| *op == SetOp::UnionAll);
        let demand = if keeps_rows { demand } else { Demand::ALL };
        let mut stage = self.operand(columns, first, demand.clone()).await?;
        for (op, relation) in rest {
            let other = self.operand(columns, relation, demand.clone()).await?;
            let schema = stage.plan.schema();
            if matches!(op, SetOp::IntersectDistinct | SetOp::ExceptDistinct) {
                // The right side then matches every row that is left at most once.
                stage.plan = distinct(stage.plan, schema.fields().len());
            }
            stage.plan = match op {
                SetOp::UnionAll | SetOp::UnionDistinct => {
                    UnionExec::try_new(vec![stage.plan, other.plan])?
                }
                SetOp::Intersect
                | SetOp::IntersectDistinct
                | SetOp::Except
                | SetOp::ExceptDistinct => {
                    let keep_matching = matches!(op, SetOp::Intersect | SetOp::IntersectDistinct);
                    let inputs = vec![single_partition(stage.plan), single_partition(other.plan)];
                    let operator = SetOperation { schema: schema.clone(), keep_matching };
                    OperatorExec::plan(operator, inputs, schema.clone(), 1)
                }
            };
            if *op == SetOp::UnionDistinct {
                stage.plan = distinct(stage.plan, schema.fields().len());
            }
        }
        Ok(stage)
    }

    /// An operand of a set operation, cast to the column types of the result.
    async fn operand(
        &mut self,
        columns: &[Output],
        relation: &Relation,
        demand: Demand,
    ) -> Result<Stage> {
        let stage = self.relation(relation, demand).await?;
        let pairs = relation.columns.iter().zip(columns).enumerate();
        let exprs = pairs.map(|(no, (from, to))| {
            self.cast(input(&stage.plan, no), &from.ty, &to.ty, Span::default())
        });
        let exprs = exprs.collect::<Result<_>>()?;
        let plan = project(stage.plan, exprs)?;
        Ok(Stage { plan, ..stage })
    }

    /// Materializes all rows until the query ends.
    async fn collect(&mut self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>> {
        let mut stream = execute_stream(plan.clone(), self.task.clone())?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await.transpose()? {
            self.retained.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        self.explain("common table expression", &plan);
        Ok(batches)
    }

    fn cte_columns(&self, no: usize) -> usize {
        let cte = &self.ctes[no];
        cte.plan.ctes[cte.index].columns.len()
    }

    async fn cte(&mut self, no: usize, demand: Demand) -> Result<Arc<dyn ExecutionPlan>> {
        let cte = &self.ctes[no];
        if let Some((schema, batches)) = &cte.materialized {
            return Ok(row_sources::in_memory(schema.clone(), batches.clone()));
        }
        let (plan, uses) = (cte.plan.clone(), cte.uses);
        let demand = if uses < 2 { demand } else { Demand::ALL };
        let stage = self.relation(&plan.ctes[self.ctes[no].index], demand).await?;
        if uses < 2 {
            return Ok(stage.plan);
        }
        let schema = stage.plan.schema();
        let batches = Arc::new(self.collect(stage.plan).await?);
        self.ctes[no].materialized = Some((schema.clone(), batches.clone()));
        Ok(row_sources::in_memory(schema, batches))
    }

    /// Keeps a plan that has run, if it is to be shown.
    pub(crate) fn explain(&mut self, title: &'static str, plan: &Arc<dyn ExecutionPlan>) {
        if self.explains {
            self.explained.push((title, plan.clone()));
        }
    }

    pub(crate) fn loaded_sessions(&self) -> Option<Arc<Sessions>> {
        self.sessions.clone()
    }

    pub(crate) fn set_sessions(&mut self, sessions: Arc<Sessions>) {
        self.sessions = Some(sessions);
    }

    /// Reserves memory until the query ends.
    pub(crate) fn retain(&self, bytes: usize) -> Result<()> {
        Ok(self.retained.try_grow(bytes)?)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained.size()
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.retained.shrink(bytes);
    }

    /// The person uuids of a cohort's members.
    fn cohort(&self, cohort: CohortId) -> Arc<HashSet<Vec<u8>>> {
        let members = self.view.cohorts.get(cohort).map(|cohort| &cohort.members);
        let persons = members.into_iter().flatten();
        let persons = persons.filter_map(|no| self.view.persons.person(no));
        Arc::new(persons.map(|person| person.uuid.as_bytes().to_vec()).collect())
    }
}

/// Merges the partitions of a plan into one.
pub(crate) fn single_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
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

/// Keeps one row for each combination of the first `columns` columns.
fn distinct(plan: Arc<dyn ExecutionPlan>, columns: usize) -> Arc<dyn ExecutionPlan> {
    let schema = plan.schema();
    let operator =
        LimitBy { schema: schema.clone(), keys: (0..columns).collect(), skip: 0, take: 1 };
    OperatorExec::plan(operator, vec![single_partition(plan)], schema, 1)
}

fn limit(plan: Arc<dyn ExecutionPlan>, skip: u64, fetch: Option<u64>) -> Arc<dyn ExecutionPlan> {
    if skip == 0 && fetch.is_none() {
        return plan;
    }
    let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Arc::new(GlobalLimitExec::new(single_partition(plan), size(skip), fetch.map(size)))
}

/// A reference to a column of a projection that is still being assembled; [`project`] names its
/// columns by index. For a finished plan use [`input`].
pub(crate) fn column(no: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(&no.to_string(), no))
}

/// A column of a plan.
pub(crate) fn input(plan: &Arc<dyn ExecutionPlan>, no: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(plan.schema().field(no).name(), no))
}

/// All columns of a plan.
pub(crate) fn inputs(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    (0..plan.schema().fields().len()).map(|no| input(plan, no)).collect()
}

/// The schema of columns with these types, named by their indexes.
pub(crate) fn schema_of(
    types: impl IntoIterator<Item = arrow::datatypes::DataType>,
) -> Arc<Schema> {
    let fields = types.into_iter().enumerate();
    let fields = fields.map(|(no, ty)| arrow::datatypes::Field::new(no.to_string(), ty, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
