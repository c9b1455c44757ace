//! One select, its parts in the order in which they apply.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt8Array};
use arrow::datatypes::DataType;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use eval::{MemoryTracker, data_type};
use hogql::plan::{Expr, Order, Select, Source, Unnest};

use super::express::sortable;
use super::leaves::{Field, Layout, Leaf, conjuncts, exprs, leaves, sources};
use super::{Lower, Stage, column, distinct, input, inputs, limit, one, project, schema_of};
use crate::aggregates::default_of;
use crate::error::Result;
use crate::steps::explode::Explode;
use crate::steps::filter::filter;
use crate::steps::first::First;
use crate::steps::{StepExec, rows};

impl Lower {
    pub(super) async fn select(&mut self, select: &Select, fetch: Option<u64>) -> Result<Stage> {
        self.prepare(select).await?;
        let all: Vec<&Expr> = select.filter.iter().flat_map(conjuncts).collect();
        let (early, late): (Vec<&Expr>, Vec<&Expr>) =
            all.into_iter().partition(|one| self.applies_to(one, select).is_some());
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

    /// The source that a condition can be put to before anything is joined.
    pub(super) fn applies_to(&self, condition: &Expr, select: &Select) -> Option<usize> {
        let found = sources(condition)?;
        let (first, rest) = found.split_first()?;
        let own = rest.iter().all(|other| other == first).then_some(*first)?;
        // What an outer join adds to a source is filtered too, so the filter has to wait.
        (!super::joins::nullable(&select.sources)[own]).then_some(own)
    }

    async fn sources(&mut self, select: &Select, early: &[&Expr]) -> Result<Stage> {
        let mut wanted: Vec<Vec<Leaf>> = vec![Vec::new(); select.sources.len()];
        for expr in exprs(select) {
            leaves(expr, &mut |leaf| {
                let (Leaf::Field { source, .. } | Leaf::Output { source, .. }) = leaf else {
                    return;
                };
                if let Some(own) = wanted.get_mut(source)
                    && !own.contains(&leaf)
                {
                    own.push(leaf);
                }
            });
        }
        let mut joined: Option<Stage> = None;
        for (no, one) in select.sources.iter().enumerate() {
            let own: Vec<&Expr> = early
                .iter()
                .copied()
                .filter(|one| self.applies_to(one, select) == Some(no))
                .collect();
            let plain = select.sources.len() > 1;
            let mut stage = self.source(&one.source, no, &wanted[no], &own, plain).await?;
            for condition in own {
                stage.plan = filter(stage.plan.clone(), self.condition(condition, &stage)?);
            }
            joined = Some(match joined {
                None => stage,
                Some(before) => self.join(before, stage, one, no)?,
            });
        }
        match joined {
            Some(stage) => Ok(stage),
            None => nothing(),
        }
    }

    /// With `plain`, without dictionaries: joins keep rows of many batches together.
    async fn source(
        &mut self,
        source: &Source,
        no: usize,
        wanted: &[Leaf],
        filters: &[&Expr],
        plain: bool,
    ) -> Result<Stage> {
        let mut layout = Layout::default();
        let plan = match source {
            Source::Table(table, _) => {
                let fields: Vec<Field> = wanted
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
                if plain { without_dictionaries(plan, self.stop.account())? } else { plan }
            }
            Source::Numbers(count) => {
                layout.set(Leaf::Output { source: no, column: 0 }, 0);
                rows::numbers(*count)
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
        let step = Explode {
            schema: schema.clone(),
            defaults: unnest.keep_empty.then_some(defaults),
            arrays: unnest.arrays.len(),
        };
        let plan = StepExec::plan(step, vec![input], schema, partitions);
        let mut layout = stage.layout;
        for array in 0..unnest.arrays.len() {
            layout.set(Leaf::Element(no, array), plain + array);
        }
        Ok(Stage { plan, layout, ..stage })
    }

    /// Columns, `DISTINCT`, order and limits.
    fn shape(&self, stage: Stage, select: &Select, fetch: Option<u64>) -> Result<Stage> {
        let mut exprs = Vec::new();
        for expr in &select.columns {
            exprs.push(self.value(expr, &stage)?);
        }
        let columns = exprs.len();
        let mut order = Vec::new();
        for one in &select.order {
            order.push(self.order(one, &stage, &mut exprs)?);
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
            plan = Arc::new(SortExec::new(ordering, one(plan)).with_fetch(rows));
        }
        if let Some(limit_by) = &select.limit_by {
            let schema = plan.schema();
            let (skip, take) = (limit_by.offset, limit_by.limit);
            let step = First { schema: schema.clone(), keys: by, skip, take };
            plan = StepExec::plan(step, vec![one(plan)], schema, 1);
        }
        plan = limit(plan, select.offset, select.limit);
        if hidden {
            let mut shown = inputs(&plan);
            shown.truncate(columns);
            plan = project(plan, shown)?;
        }
        Ok(Stage { plan, layout: Layout::default(), outer: false })
    }

    /// Adds a column to sort by.
    pub(super) fn order(
        &self,
        order: &Order,
        stage: &Stage,
        exprs: &mut Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<PhysicalSortExpr> {
        let value = self.value(&order.expr, stage)?;
        let value = sortable(value, &data_type(&order.expr.ty), self.stop.account())?;
        let place = column(exprs.len());
        exprs.push(value);
        let options = arrow::compute::SortOptions {
            descending: order.descending,
            nulls_first: order.nulls_first,
        };
        Ok(PhysicalSortExpr::new(place, options))
    }
}

/// Up to which row the caller reads.
fn fetch_end(select: &Select, fetch: Option<u64>) -> Option<u64> {
    fetch.map(|fetch| fetch.saturating_add(select.offset))
}

/// One row without columns that anybody reads.
fn nothing() -> Result<Stage> {
    let schema = schema_of([DataType::UInt8]);
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(UInt8Array::from(vec![0]))])?;
    let plan = rows::held(schema, Arc::new(vec![batch]));
    Ok(Stage { plan, layout: Layout::default(), outer: false })
}

fn without_dictionaries(
    plan: Arc<dyn ExecutionPlan>,
    account: &MemoryTracker,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let coded = |ty: &DataType| matches!(ty, DataType::Dictionary(..));
    if !schema.fields().iter().any(|field| coded(field.data_type())) {
        return Ok(plan);
    }
    let exprs = schema.fields().iter().enumerate().map(|(no, field)| match field.data_type() {
        DataType::Dictionary(_, values) => {
            crate::apply::Apply::spread(input(&plan, no), (**values).clone(), account)
        }
        _ => input(&plan, no),
    });
    let exprs = exprs.collect();
    project(plan, exprs)
}
