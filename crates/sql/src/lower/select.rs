//! Lowers a `SELECT`, clause by clause in the order of evaluation.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt8Array};
use arrow::datatypes::DataType;
use datafusion_physical_expr::expressions::Literal;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use eval::{MemoryTracker, data_type};
use hogql::plan::{Expr, ExprKind, Grouping, Order, Select, Source, Unnest};
use hogql::tables::Table;
use hogql::types::Type;

use super::codes::CodeOf;
use super::dependent_keys::without_dependent_keys;
use super::expressions::sortable;
use super::leaves::{Field, Layout, Leaf, conjuncts, leaves, other_exprs, sources};
use super::{
    Demand, Lowering, Stage, column, distinct, input, inputs, limit, project, schema_of,
    single_partition,
};
use crate::aggregates::default_of;
use crate::error::Result;
use crate::operators::array_join::ArrayJoin;
use crate::operators::filter::filter;
use crate::operators::group_by::TopGroups;
use crate::operators::limit_by::LimitBy;
use crate::operators::limit_with_ties::LimitWithTies;
use crate::operators::{OperatorExec, row_sources};
use crate::scan::codes::CodedExpr;

impl Lowering {
    pub(super) async fn select(&mut self, select: &Select, demand: &Demand) -> Result<Stage> {
        if let Some(grouped) = self.grouped(select) {
            return Box::pin(self.select(&grouped, demand)).await;
        }
        if self.paths.codes
            && let Some(select) = without_dependent_keys(select)
        {
            return Box::pin(self.select(&select, demand)).await;
        }
        self.run_subqueries(select).await?;
        let all: Vec<&Expr> = select.filter.iter().flat_map(conjuncts).collect();
        let (early, late): (Vec<&Expr>, Vec<&Expr>) =
            all.into_iter().partition(|condition| self.only_source(condition, select).is_some());
        if late.is_empty()
            && self.paths.late
            && let Some(page) = self.ordered_events(select, &early, demand).await?
        {
            let columns = self.columns(&page, select, demand)?;
            let plan = project(page.plan, columns)?;
            return Ok(Stage { plan, layout: Layout::default(), outer: false });
        }
        let mut stage = self.sources(select, &early, &late, demand).await?;
        for (no, unnest) in select.unnests.iter().enumerate() {
            stage = self.unnest(stage, unnest, no)?;
        }
        for condition in late {
            stage.plan = filter(stage.plan.clone(), self.condition(condition, &stage)?);
        }
        if let Some(grouping) = &select.grouping {
            stage = self.group(stage, grouping, top_groups(select, demand))?;
            if let Some(having) = &grouping.having {
                stage.plan = filter(stage.plan.clone(), self.condition(having, &stage)?);
            }
        }
        for (no, unnest) in select.late_unnests.iter().enumerate() {
            stage = self.unnest(stage, unnest, select.unnests.len() + no)?;
        }
        stage = self.windows(stage, &select.windows)?;
        if let Some(qualify) = &select.qualify {
            stage.plan = filter(stage.plan.clone(), self.condition(qualify, &stage)?);
        }
        self.shape(stage, select, demand)
    }

    /// `DISTINCT` as a grouping by all columns; none if the order reads anything else.
    fn grouped(&self, select: &Select) -> Option<Select> {
        let Select { grouping, late_unnests, windows, qualify, limit_by, .. } = select;
        let is_plain = grouping.is_none()
            && late_unnests.is_empty()
            && windows.is_empty()
            && qualify.is_none()
            && limit_by.is_none();
        if !select.distinct || !is_plain || !self.paths.codes {
            return None;
        }
        let key = |expr: &Expr| {
            let key = select.columns.iter().position(|column| column == expr)?;
            Some(Expr { kind: ExprKind::Key(key), ty: expr.ty.clone(), span: expr.span })
        };
        let mut grouped = select.clone();
        for order in &mut grouped.order {
            order.expr = key(&order.expr)?;
        }
        let keys = std::mem::take(&mut grouped.columns);
        grouped.columns = keys.iter().map(key).collect::<Option<_>>()?;
        grouped.grouping = Some(Grouping { keys, aggregates: Vec::new(), having: None });
        grouped.distinct = false;
        Some(grouped)
    }

    /// The source that a condition can be pushed down to, below the joins.
    pub(super) fn only_source(&self, condition: &Expr, select: &Select) -> Option<usize> {
        let sources = sources(condition)?;
        let (first, rest) = sources.split_first()?;
        let source = rest.iter().all(|other| other == first).then_some(*first)?;
        // The condition must also filter rows that an outer join fills with nulls.
        (!super::joins::nullable(&select.sources)[source]).then_some(source)
    }

    async fn sources(
        &mut self,
        select: &Select,
        early: &[&Expr],
        late: &[&Expr],
        demand: &Demand,
    ) -> Result<Stage> {
        let mut coded = self.coded_exprs(select);
        let mut read = Reads::new(select, late, &coded, demand);
        for condition in early {
            // The scan of events evaluates them itself.
            if let Some(source) = self.only_source(condition, select)
                && !self.scans_conditions(&select.sources[source].source)
            {
                read.add(condition);
            }
        }
        let mut joined: Option<Stage> = None;
        for (no, joined_source) in select.sources.iter().enumerate() {
            let pushed: Vec<&Expr> = early
                .iter()
                .copied()
                .filter(|condition| self.only_source(condition, select) == Some(no))
                .collect();
            let (codes, others) = coded.into_iter().partition(|coded| coded.source == no);
            coded = others;
            let reads = SourceReads { no, leaves: &read.leaves[no], codes, conditions: &pushed };
            // Windows sort rows of many batches, too.
            let plain = select.sources.len() > 1 || !select.windows.is_empty();
            let stage = self.source(&joined_source.source, reads, plain).await?;
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

    /// The rows of a source that pass the conditions. With `plain`, columns are not
    /// dictionary-encoded: joins mix rows of many batches, and count a dictionary's memory for each.
    async fn source(
        &mut self,
        source: &Source,
        reads: SourceReads<'_>,
        plain: bool,
    ) -> Result<Stage> {
        let SourceReads { no, leaves: leaves_read, codes, conditions } = reads;
        let mut layout = Layout::default();
        let outputs = |columns: usize| {
            let read = |column: usize| leaves_read.contains(&Leaf::Output { source: no, column });
            Demand { rows: None, columns: Some((0..columns).map(read).collect()) }
        };
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
                for (at, coded) in codes.iter().enumerate() {
                    layout.set_code(coded.of, coded.codes.clone(), fields.len() + at);
                }
                let scanned = if self.scans_conditions(source) { conditions } else { &[] };
                let plan = self.table(*table, no, &fields, &codes, scanned).await?;
                if plain { without_dictionaries(plan, self.cancellation.memory())? } else { plan }
            }
            Source::Numbers { start, count } => {
                layout.set(Leaf::Output { source: no, column: 0 }, 0);
                row_sources::numbers(*start, *count)
            }
            Source::Query(relation) => {
                self.relation(relation, outputs(relation.columns.len())).await?.plan
            }
            Source::Cte(cte) => {
                let columns = self.cte_columns(*cte);
                Box::pin(self.cte(*cte, outputs(columns))).await?
            }
        };
        if matches!(source, Source::Query(_) | Source::Cte(_)) {
            for column in 0..plan.schema().fields().len() {
                layout.set(Leaf::Output { source: no, column }, column);
            }
        }
        let mut stage = Stage { plan, layout, outer: false };
        if !self.scans_conditions(source) {
            for condition in conditions {
                stage.plan = filter(stage.plan.clone(), self.condition(condition, &stage)?);
            }
        }
        Ok(stage)
    }

    /// Whether the scan of a source evaluates conditions on it.
    fn scans_conditions(&self, source: &Source) -> bool {
        self.paths.conditions && matches!(source, Source::Table(Table::Events, _))
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

    fn columns(
        &self,
        stage: &Stage,
        select: &Select,
        demand: &Demand,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let column = |(no, expr): (usize, &Expr)| match demand.needs(no) || select.distinct {
            true => self.value(expr, stage),
            false => unread(&expr.ty),
        };
        select.columns.iter().enumerate().map(column).collect()
    }

    /// Projection, `DISTINCT`, `ORDER BY` and limits.
    fn shape(&self, stage: Stage, select: &Select, demand: &Demand) -> Result<Stage> {
        let mut exprs = self.columns(&stage, select, demand)?;
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
            fetch_end(select, demand.rows),
        ];
        let end = end.into_iter().flatten().min();
        let order_keys = columns..columns + order.len();
        if let Some(ordering) = LexOrdering::new(order) {
            let cuts = select.limit_by.is_none() && !select.with_ties;
            let rows = if cuts { end } else { None };
            let rows = rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
            plan = Arc::new(SortExec::new(ordering, single_partition(plan)).with_fetch(rows));
        }
        if let Some(limit_by) = &select.limit_by {
            let schema = plan.schema();
            let (skip, take) = (limit_by.offset, limit_by.limit);
            let operator = LimitBy { schema: schema.clone(), keys: by, skip, take };
            plan = OperatorExec::plan(operator, vec![single_partition(plan)], schema, 1);
        }
        plan = match select.limit {
            Some(take) if select.with_ties => {
                let schema = plan.schema();
                let keys = order_keys.collect();
                let skip = select.offset;
                let operator = LimitWithTies { schema: schema.clone(), keys, skip, take };
                OperatorExec::plan(operator, vec![single_partition(plan)], schema, 1)
            }
            _ => limit(plan, select.offset, select.limit),
        };
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

/// The leaves that a select reads of each of its sources.
struct Reads {
    leaves: Vec<Vec<Leaf>>,
}

/// What a select reads of one of its sources.
struct SourceReads<'a> {
    no: usize,
    leaves: &'a [Leaf],
    codes: Vec<CodedExpr<'a>>,
    conditions: &'a [&'a Expr],
}

impl Reads {
    /// Without conditions of one source.
    fn new(select: &Select, late: &[&Expr], coded: &[CodedExpr<'_>], demand: &Demand) -> Self {
        let mut reads = Self { leaves: vec![Vec::new(); select.sources.len()] };
        late.iter().for_each(|condition| reads.add(condition));
        other_exprs(select).into_iter().for_each(|expr| reads.add(expr));
        let is_coded = |of: CodeOf| coded.iter().any(|coded| coded.of == of);
        if let Some(grouping) = &select.grouping {
            for (no, key) in grouping.keys.iter().enumerate() {
                if !is_coded(CodeOf::Key(no)) {
                    reads.add(key);
                }
            }
            for (no, call) in grouping.aggregates.iter().enumerate() {
                if !is_coded(CodeOf::Argument(no)) {
                    call.args.iter().for_each(|arg| reads.add(arg));
                }
            }
        }
        for (no, column) in select.columns.iter().enumerate() {
            if demand.needs(no) || select.distinct {
                reads.add(column);
            }
        }
        reads
    }

    fn add(&mut self, expr: &Expr) {
        leaves(expr, &mut |leaf| {
            let (Leaf::Field { source, .. } | Leaf::Output { source, .. }) = leaf else { return };
            if let Some(leaves) = self.leaves.get_mut(source)
                && !leaves.contains(&leaf)
            {
                leaves.push(leaf);
            }
        });
    }
}

/// Which groups can be among the rows of the result.
fn top_groups(select: &Select, demand: &Demand) -> Option<TopGroups> {
    let Select { late_unnests, windows, qualify, distinct, limit_by, offset, .. } = select;
    let keeps_groups = late_unnests.is_empty()
        && windows.is_empty()
        && qualify.is_none()
        && !distinct
        && limit_by.is_none()
        && select.grouping.as_ref()?.having.is_none();
    let Order { expr, descending, .. } = select.order.first()?;
    let ExprKind::Aggregate(aggregate) = expr.kind else { return None };
    let limit = select.limit.into_iter().chain(demand.rows).min().filter(|_| keeps_groups)?;
    let rows = usize::try_from(limit.saturating_add(*offset)).ok()?;
    Some(TopGroups { aggregate, descending: *descending, rows })
}

/// A column that nobody reads.
fn unread(ty: &Type) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(Literal::new(default_of(&data_type(ty), ty.nullable)?)))
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
