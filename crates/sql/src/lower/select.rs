//! Lowers a `SELECT`, clause by clause in the order of evaluation.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt8Array};
use arrow::datatypes::DataType;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use eval::{MemoryTracker, data_type};
use hogql::plan::{Expr, Order, Select, Source, Unnest};

use super::expressions::sortable;
use super::leaves::{Field, Layout, Leaf, conjuncts, exprs, leaves, sources};
use super::{
    Lowering, Stage, column, distinct, input, inputs, limit, project, schema_of, single_partition,
};
use crate::aggregates::default_of;
use crate::error::Result;
use crate::operators::array_join::ArrayJoin;
use crate::operators::filter::filter;
use crate::operators::limit_by::LimitBy;
use crate::operators::{OperatorExec, row_sources};

impl Lowering {
    pub(super) async fn select(&mut self, select: &Select, fetch: Option<u64>) -> Result<Stage> {
        self.run_subqueries(select).await?;
        let all: Vec<&Expr> = select.filter.iter().flat_map(conjuncts).collect();
        let (early, late): (Vec<&Expr>, Vec<&Expr>) =
            all.into_iter().partition(|condition| self.only_source(condition, select).is_some());
        let mut stage = self.sources(select, &early).await?;
        for (no, unnest) in select.unnests.iter().enumerate() {
            stage = self.unnest(stage, unnest, no)?;
        }
        for condition in late {
            stage.plan = filter(stage.plan.clone(), self.condition(condition, &stage)?);
        }
        if let Some(grouping) = &select.grouping {
            stage = self.group(stage, grouping)?;
            if let Some(having) = &grouping.having {
                stage.plan = filter(stage.plan.clone(), self.condition(having, &stage)?);
            }
        }
        for (no, unnest) in select.late_unnests.iter().enumerate() {
            stage = self.unnest(stage, unnest, select.unnests.len() + no)?;
        }
        stage = self.windows(stage, &select.windows)?;
        self.shape(stage, select, fetch)
    }

    /// The source that a condition can be pushed down to, below the joins.
    pub(super) fn only_source(&self, condition: &Expr, select: &Select) -> Option<usize> {
        let sources = sources(condition)?;
        let (first, rest) = sources.split_first()?;
        let source = rest.iter().all(|other| other == first).then_some(*first)?;
        // The condition must also filter rows that an outer join fills with nulls.
        (!super::joins::nullable(&select.sources)[source]).then_some(source)
    }

    async fn sources(&mut self, select: &Select, early: &[&Expr]) -> Result<Stage> {
        let mut leaves_read: Vec<Vec<Leaf>> = vec![Vec::new(); select.sources.len()];
        for expr in exprs(select) {
            leaves(expr, &mut |leaf| {
                let (Leaf::Field { source, .. } | Leaf::Output { source, .. }) = leaf else {
                    return;
                };
                if let Some(leaves) = leaves_read.get_mut(source)
                    && !leaves.contains(&leaf)
                {
                    leaves.push(leaf);
                }
            });
        }
        let mut joined: Option<Stage> = None;
        for (no, joined_source) in select.sources.iter().enumerate() {
            let pushed: Vec<&Expr> = early
                .iter()
                .copied()
                .filter(|condition| self.only_source(condition, select) == Some(no))
                .collect();
            let plain = select.sources.len() > 1;
            let mut stage =
                self.source(&joined_source.source, no, &leaves_read[no], &pushed, plain).await?;
            for condition in pushed {
                stage.plan = filter(stage.plan.clone(), self.condition(condition, &stage)?);
            }
            joined = Some(match joined {
                None => stage,
                Some(before) => self.join(before, stage, joined_source, no)?,
            });
        }
        match joined {
            Some(stage) => Ok(stage),
            None => one_row(),
        }
    }

    /// With `plain`, columns are not dictionary-encoded: joins mix rows of many batches.
    async fn source(
        &mut self,
        source: &Source,
        no: usize,
        leaves_read: &[Leaf],
        filters: &[&Expr],
        plain: bool,
    ) -> Result<Stage> {
        let mut layout = Layout::default();
        let plan = match source {
            Source::Table(table, _) => {
                let fields: Vec<Field> = leaves_read
                    .iter()
                    .filter_map(|leaf| match leaf {
                        Leaf::Field { field, .. } => Some(field.clone()),
                        _ => None,
                    })
                    .collect();
                for (at, field) in fields.iter().enumerate() {
                    layout.set(Leaf::Field { source: no, field: field.clone() }, at);
                }
                let plan = self.table(*table, fields, filters).await?;
                if plain { without_dictionaries(plan, self.cancellation.memory())? } else { plan }
            }
            Source::Numbers(count) => {
                layout.set(Leaf::Output { source: no, column: 0 }, 0);
                row_sources::numbers(*count)
            }
            Source::Query(relation) => self.relation(relation, None).await?.plan,
            Source::Cte(cte) => Box::pin(self.cte(*cte)).await?,
        };
        if matches!(source, Source::Query(_) | Source::Cte(_)) {
            for column in 0..plan.schema().fields().len() {
                layout.set(Leaf::Output { source: no, column }, column);
            }
        }
        Ok(Stage { plan, layout, outer: false })
    }

    fn unnest(&self, stage: Stage, unnest: &Unnest, no: usize) -> Result<Stage> {
        let before = stage.plan.schema();
        let plain = before.fields().len();
        let mut exprs = inputs(&stage.plan);
        let mut types: Vec<DataType> =
            before.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut defaults = Vec::new();
        for array in &unnest.arrays {
            exprs.push(self.value(array, &stage)?);
            let element = array.ty.element().map_or(DataType::Null, data_type);
            let nullable = array.ty.element().is_none_or(|element| element.nullable);
            defaults.push(default_of(&element, nullable)?);
            types.push(element);
        }
        let partitions = stage.plan.output_partitioning().partition_count();
        let input = project(stage.plan, exprs)?;
        let schema = schema_of(types);
        let operator = ArrayJoin {
            schema: schema.clone(),
            defaults: unnest.keep_empty.then_some(defaults),
            arrays: unnest.arrays.len(),
        };
        let plan = OperatorExec::plan(operator, vec![input], schema, partitions);
        let mut layout = stage.layout;
        for array in 0..unnest.arrays.len() {
            layout.set(Leaf::Element(no, array), plain + array);
        }
        Ok(Stage { plan, layout, ..stage })
    }

    /// Projection, `DISTINCT`, `ORDER BY` and limits.
    fn shape(&self, stage: Stage, select: &Select, fetch: Option<u64>) -> Result<Stage> {
        let mut exprs = Vec::new();
        for expr in &select.columns {
            exprs.push(self.value(expr, &stage)?);
        }
        let columns = exprs.len();
        let mut order = Vec::new();
        for key in &select.order {
            order.push(self.order(key, &stage, &mut exprs)?);
        }
        let mut by = Vec::new();
        for expr in select.limit_by.iter().flat_map(|limit_by| &limit_by.by) {
            by.push(exprs.len());
            exprs.push(self.value(expr, &stage)?);
        }
        let hidden = exprs.len() > columns;
        let mut plan = project(stage.plan, exprs)?;
        if select.distinct {
            plan = distinct(plan, columns);
        }
        let end = [
            select.limit.map(|limit| limit.saturating_add(select.offset)),
            fetch_end(select, fetch),
        ];
        let end = end.into_iter().flatten().min();
        if let Some(ordering) = LexOrdering::new(order) {
            let rows = if select.limit_by.is_none() { end } else { None };
            let rows = rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
            plan = Arc::new(SortExec::new(ordering, single_partition(plan)).with_fetch(rows));
        }
        if let Some(limit_by) = &select.limit_by {
            let schema = plan.schema();
            let (skip, take) = (limit_by.offset, limit_by.limit);
            let operator = LimitBy { schema: schema.clone(), keys: by, skip, take };
            plan = OperatorExec::plan(operator, vec![single_partition(plan)], schema, 1);
        }
        plan = limit(plan, select.offset, select.limit);
        if hidden {
            let mut visible = inputs(&plan);
            visible.truncate(columns);
            plan = project(plan, visible)?;
        }
        Ok(Stage { plan, layout: Layout::default(), outer: false })
    }

    /// Adds the column of a sort key.
    pub(super) fn order(
        &self,
        order: &Order,
        stage: &Stage,
        exprs: &mut Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<PhysicalSortExpr> {
        let value = self.value(&order.expr, stage)?;
        let value = sortable(value, &data_type(&order.expr.ty), self.cancellation.memory())?;
        let key = column(exprs.len());
        exprs.push(value);
        let options = arrow::compute::SortOptions {
            descending: order.descending,
            nulls_first: order.nulls_first,
        };
        Ok(PhysicalSortExpr::new(key, options))
    }
}

/// The last row that the caller reads, before the offset is applied.
fn fetch_end(select: &Select, fetch: Option<u64>) -> Option<u64> {
    fetch.map(|fetch| fetch.saturating_add(select.offset))
}

/// One row, for a select without FROM. Its column is a placeholder.
fn one_row() -> Result<Stage> {
    let schema = schema_of([DataType::UInt8]);
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(UInt8Array::from(vec![0]))])?;
    let plan = row_sources::in_memory(schema, Arc::new(vec![batch]));
    Ok(Stage { plan, layout: Layout::default(), outer: false })
}

fn without_dictionaries(
    plan: Arc<dyn ExecutionPlan>,
    memory: &MemoryTracker,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let coded = |ty: &DataType| matches!(ty, DataType::Dictionary(..));
    if !schema.fields().iter().any(|field| coded(field.data_type())) {
        return Ok(plan);
    }
    let exprs = schema.fields().iter().enumerate().map(|(no, field)| match field.data_type() {
        DataType::Dictionary(_, values) => crate::closure_expr::ClosureExpr::decode_dictionary(
            input(&plan, no),
            (**values).clone(),
            memory,
        ),
        _ => input(&plan, no),
    });
    let exprs = exprs.collect();
    project(plan, exprs)
}
