//! Joins: a hash join where the condition has equal keys, else a nested loop.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use hogql::ast::{JoinKind, Strictness};
use hogql::plan::{Comparison, Expr, ExprKind, JoinedSource};
use hogql::types::Type;

use super::leaves::{Layout, conjuncts, leaves, sources};
use super::{Lowering, Stage, column, input, inputs, project, single_partition};
use crate::closure_expr::ClosureExpr;
use crate::error::{Error, Result};
use crate::operators::filter::filter;
use crate::operators::limit_by::LimitBy;
use crate::operators::row_width::limit_row_width;
use crate::operators::{OperatorExec, cooperative};

/// For each source, whether an outer join may replace its rows with nulls.
pub(super) fn nullable(joined: &[JoinedSource]) -> Vec<bool> {
    let mut nullable = vec![false; joined.len()];
    for (no, source) in joined.iter().enumerate() {
        // Every row of a semi join has a match, but which one is chosen must not depend on a filter.
        if matches!(source.kind, Some(JoinKind::Left | JoinKind::Full))
            || source.strictness != Strictness::All
        {
            nullable[no] = true;
        }
        if matches!(source.kind, Some(JoinKind::Right | JoinKind::Full))
            || source.strictness != Strictness::All
        {
            nullable[..no].fill(true);
        }
    }
    nullable
}

/// An equality of a join's condition between the earlier sources and the new one, and the type to
/// compare in.
struct Equal<'a> {
    before: &'a Expr,
    new: &'a Expr,
    ty: Type,
}

impl Lowering {
    /// The new source is the build side, in memory; the earlier ones are the probe side.
    pub(super) fn join(
        &self,
        before: Stage,
        new: Stage,
        joined: &JoinedSource,
        no: usize,
    ) -> Result<Stage> {
        // DataFusion's build side is the left one.
        let kind = match joined.kind {
            Some(JoinKind::Left | JoinKind::Right) if joined.strictness == Strictness::Semi => {
                JoinType::Inner
            }
            Some(JoinKind::Left) => JoinType::Right,
            Some(JoinKind::Right) => JoinType::Left,
            Some(JoinKind::Full) => JoinType::Full,
            Some(JoinKind::Inner | JoinKind::Cross) | None => JoinType::Inner,
        };
        let outer = before.outer || new.outer || kind != JoinType::Inner;
        let conditions = joined.on.as_ref().map(conjuncts).unwrap_or_default();
        let (mut equal, mut rest) = (Vec::new(), Vec::new());
        for condition in conditions {
            match equality(condition, no) {
                Some(equality) => equal.push(equality),
                None => rest.push(condition),
            }
        }
        if joined.strictness != Strictness::All && (equal.is_empty() || !rest.is_empty()) {
            let message =
                "ANY, SEMI and ANTI JOIN need a condition of equalities between the tables";
            let span = joined.on.as_ref().map(|on| on.span);
            return Err(Error::Invalid { message: message.to_owned(), span });
        }
        let new_width = new.plan.schema().fields().len();
        let before_width = before.plan.schema().fields().len();
        let mut keys = Vec::new();
        let (mut new_keys, mut before_keys) = (Vec::new(), Vec::new());
        for (at, Equal { before: left, new: right, ty }) in equal.iter().enumerate() {
            let value = self.value(right, &new)?;
            new_keys.push(self.cast(value, &right.ty, ty, right.span)?);
            let value = self.value(left, &before)?;
            before_keys.push(self.cast(value, &left.ty, ty, left.span)?);
            keys.push((column(new_width + at), column(before_width + at)));
        }
        let mut build = single_partition(limit_row_width(with_columns(new.plan, new_keys)?));
        let mut probe = limit_row_width(with_columns(before.plan, before_keys)?);
        // One row for each key on the side in which matches are looked up.
        let chosen = joined.strictness;
        if chosen != Strictness::All && joined.kind != Some(JoinKind::Right) {
            build = first_by_key(build, new_width);
        }
        let is_any_inner = chosen == Strictness::Any && joined.kind == Some(JoinKind::Inner);
        if is_any_inner || chosen != Strictness::All && joined.kind == Some(JoinKind::Right) {
            probe = first_by_key(probe, before_width);
        }
        if kind != JoinType::Inner {
            // Which build rows have no match is only known once all probe rows were read.
            probe = single_partition(probe);
        }
        let mut layout = before.layout.shifted(new_width + equal.len());
        layout.merge(new.layout);
        let mut stage = Stage { plan: build.clone(), layout, outer };
        let residual = self.residual(&rest, &stage, &build.schema(), &probe.schema())?;
        stage.plan = match (keys.is_empty(), &residual) {
            (true, None) if kind == JoinType::Inner => Arc::new(CrossJoinExec::new(build, probe)),
            (true, _) => Arc::new(NestedLoopJoinExec::try_new(
                build,
                single_partition(probe),
                residual,
                &kind,
                None,
            )?),
            (false, _) => Arc::new(HashJoinExec::try_new(
                build,
                probe,
                keys,
                residual,
                &kind,
                None,
                PartitionMode::CollectLeft,
                // As in ClickHouse, null keys match nothing.
                NullEquality::NullEqualsNothing,
                false,
            )?),
        };
        stage.plan = cooperative(stage.plan);
        if joined.strictness == Strictness::Anti {
            // A key is null where there is no match, and null keys match nothing.
            let key = match joined.kind {
                Some(JoinKind::Right) => new_width + equal.len() + before_width,
                _ => new_width,
            };
            let key = input(&stage.plan, key);
            let unmatched =
                ClosureExpr::expr("unmatched", vec![key], DataType::Boolean, |arrays, _| {
                    Ok(Arc::new(arrow::compute::is_null(&arrays[0])?))
                });
            stage.plan = filter(stage.plan, unmatched);
        }
        Ok(stage)
    }

    /// The join filter: conditions other than key equality, over the columns that they read.
    fn residual(
        &self,
        rest: &[&Expr],
        stage: &Stage,
        build: &Schema,
        probe: &Schema,
    ) -> Result<Option<JoinFilter>> {
        if rest.is_empty() {
            return Ok(None);
        }
        let (mut layout, mut indexes, mut fields) = (Layout::default(), Vec::new(), Vec::new());
        for condition in rest {
            leaves(condition, &mut |leaf| {
                let (None, Some(at)) = (layout.get(&leaf), stage.layout.get(&leaf)) else {
                    return;
                };
                let width = build.fields().len();
                let (side, index, field) = match at.checked_sub(width) {
                    None => (JoinSide::Left, at, build.field(at)),
                    Some(at) => (JoinSide::Right, at, probe.field(at)),
                };
                layout.set(leaf, indexes.len());
                let ty = field.data_type().clone();
                fields.push(Field::new(indexes.len().to_string(), ty, true));
                indexes.push(ColumnIndex { index, side });
            });
        }
        let schema = Arc::new(Schema::new(fields));
        let plan = crate::operators::row_sources::in_memory(schema.clone(), Arc::default());
        let stage = Stage { plan, layout, outer: stage.outer };
        let mut all: Option<Arc<dyn PhysicalExpr>> = None;
        for condition in rest {
            let next = self.condition(condition, &stage)?;
            all = Some(match all {
                None => next,
                Some(before) => {
                    ClosureExpr::expr("and", vec![before, next], DataType::Boolean, |arrays, _| {
                        use arrow::array::AsArray;
                        let (a, b) = (arrays[0].as_boolean(), arrays[1].as_boolean());
                        Ok(Arc::new(arrow::compute::and(a, b)?))
                    })
                }
            });
        }
        Ok(all.map(|all| JoinFilter::new(all, indexes, schema)))
    }
}

/// Whether a condition is an equality between the new source and the earlier ones.
fn equality(condition: &Expr, no: usize) -> Option<Equal<'_>> {
    let ExprKind::Compare(Comparison::Equal, sides) = &condition.kind else { return None };
    let side = |expr: &Expr| {
        let sources = sources(expr)?;
        let all_new = sources.iter().all(|source| *source == no);
        let none_new = sources.iter().all(|source| *source != no);
        (!sources.is_empty() && (all_new || none_new)).then_some(all_new)
    };
    let (before, new) = match (side(&sides[0])?, side(&sides[1])?) {
        (false, true) => (&sides[0], &sides[1]),
        (true, false) => (&sides[1], &sides[0]),
        _ => return None,
    };
    Some(Equal { before, new, ty: before.ty.common(&new.ty)? })
}

/// Keeps the first row of each key; the keys are the columns from `first_key` on.
fn first_by_key(plan: Arc<dyn ExecutionPlan>, first_key: usize) -> Arc<dyn ExecutionPlan> {
    let schema = plan.schema();
    let keys = (first_key..schema.fields().len()).collect();
    let operator = LimitBy { schema: schema.clone(), keys, skip: 0, take: 1 };
    OperatorExec::plan(operator, vec![single_partition(plan)], schema, 1)
}

fn with_columns(
    plan: Arc<dyn ExecutionPlan>,
    more: Vec<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if more.is_empty() {
        return Ok(plan);
    }
    let mut all = inputs(&plan);
    all.extend(more);
    project(plan, all)
}
