//! Joins: by equal keys where the condition has any, else row by row.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use hogql::ast::JoinKind;
use hogql::plan::{Comparison, Expr, ExprKind, JoinedSource};
use hogql::types::Type;

use super::leaves::{Layout, conjuncts, leaves, sources};
use super::{Lower, Stage, column, inputs, one, project};
use crate::error::Result;
use crate::steps::paused;
use crate::steps::width::narrow;

/// Of each source, whether joins may put nulls in its place.
pub(super) fn nullable(joined: &[JoinedSource]) -> Vec<bool> {
    let mut nullable = vec![false; joined.len()];
    for (no, one) in joined.iter().enumerate() {
        if matches!(one.kind, Some(JoinKind::Left | JoinKind::Full)) {
            nullable[no] = true;
        }
        if matches!(one.kind, Some(JoinKind::Right | JoinKind::Full)) {
            nullable[..no].fill(true);
        }
    }
    nullable
}

/// Two expressions that must be equal, that of the new source last, and the type to compare in.
struct Equal<'a> {
    before: &'a Expr,
    new: &'a Expr,
    ty: Type,
}

impl Lower {
    /// The new source is held in memory, the ones before it pass by.
    pub(super) fn join(
        &self,
        before: Stage,
        new: Stage,
        joined: &JoinedSource,
        no: usize,
    ) -> Result<Stage> {
        // A join in the engine's terms has the held side first.
        let kind = match joined.kind {
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
                Some(found) => equal.push(found),
                None => rest.push(condition),
            }
        }
        let own = new.plan.schema().fields().len();
        let other = before.plan.schema().fields().len();
        let mut keys = Vec::new();
        let (mut new_keys, mut before_keys) = (Vec::new(), Vec::new());
        for (at, Equal { before: left, new: right, ty }) in equal.iter().enumerate() {
            let value = self.value(right, &new)?;
            new_keys.push(self.cast(value, &right.ty, ty, right.span)?);
            let value = self.value(left, &before)?;
            before_keys.push(self.cast(value, &left.ty, ty, left.span)?);
            keys.push((column(own + at), column(other + at)));
        }
        let held = one(narrow(with_columns(new.plan, new_keys)?));
        let mut passing = narrow(with_columns(before.plan, before_keys)?);
        if kind != JoinType::Inner {
            // Which held rows met nobody is known when all rows have passed.
            passing = one(passing);
        }
        let mut layout = before.layout.shifted(own + equal.len());
        layout.merge(new.layout);
        let mut stage = Stage { plan: held.clone(), layout, outer };
        let filter = self.residual(&rest, &stage, &held.schema(), &passing.schema())?;
        stage.plan = match (keys.is_empty(), &filter) {
            (true, None) if kind == JoinType::Inner => Arc::new(CrossJoinExec::new(held, passing)),
            (true, _) => {
                Arc::new(NestedLoopJoinExec::try_new(held, one(passing), filter, &kind, None)?)
            }
            (false, _) => Arc::new(HashJoinExec::try_new(
                held,
                passing,
                keys,
                filter,
                &kind,
                None,
                PartitionMode::CollectLeft,
                // Nobody means to join rows that lack a key.
                NullEquality::NullEqualsNothing,
                false,
            )?),
        };
        stage.plan = paused(stage.plan);
        Ok(stage)
    }

    /// What equal keys do not say, over the columns that it needs of both sides.
    fn residual(
        &self,
        rest: &[&Expr],
        stage: &Stage,
        held: &Schema,
        passing: &Schema,
    ) -> Result<Option<JoinFilter>> {
        if rest.is_empty() {
            return Ok(None);
        }
        let (mut layout, mut places, mut fields) = (Layout::default(), Vec::new(), Vec::new());
        for condition in rest {
            leaves(condition, &mut |leaf| {
                let (None, Some(at)) = (layout.get(&leaf), stage.layout.get(&leaf)) else {
                    return;
                };
                let width = held.fields().len();
                let (side, index, found) = match at.checked_sub(width) {
                    None => (JoinSide::Left, at, held.field(at)),
                    Some(at) => (JoinSide::Right, at, passing.field(at)),
                };
                layout.set(leaf, places.len());
                fields.push(Field::new(places.len().to_string(), found.data_type().clone(), true));
                places.push(ColumnIndex { index, side });
            });
        }
        let schema = Arc::new(Schema::new(fields));
        let plan = crate::steps::rows::held(schema.clone(), Arc::default());
        let stage = Stage { plan, layout, outer: stage.outer };
        let mut all: Option<Arc<dyn PhysicalExpr>> = None;
        for condition in rest {
            let next = self.condition(condition, &stage)?;
            all = Some(match all {
                None => next,
                Some(before) => crate::apply::Apply::expr(
                    "and",
                    vec![before, next],
                    arrow::datatypes::DataType::Boolean,
                    |arrays, _| {
                        use arrow::array::AsArray;
                        let (a, b) = (arrays[0].as_boolean(), arrays[1].as_boolean());
                        Ok(Arc::new(arrow::compute::and(a, b)?))
                    },
                ),
            });
        }
        Ok(all.map(|all| JoinFilter::new(all, places, schema)))
    }
}

/// Whether a condition compares the new source with those before it.
fn equality(condition: &Expr, no: usize) -> Option<Equal<'_>> {
    let ExprKind::Compare(Comparison::Equal, sides) = &condition.kind else { return None };
    let side = |expr: &Expr| {
        let found = sources(expr)?;
        let all_new = found.iter().all(|source| *source == no);
        let none_new = found.iter().all(|source| *source != no);
        (!found.is_empty() && (all_new || none_new)).then_some(all_new)
    };
    let (before, new) = match (side(&sides[0])?, side(&sides[1])?) {
        (false, true) => (&sides[0], &sides[1]),
        (true, false) => (&sides[1], &sides[0]),
        _ => return None,
    };
    Some(Equal { before, new, ty: before.ty.common(&new.ty)? })
}

fn with_columns(
    plan: Arc<dyn datafusion_physical_plan::ExecutionPlan>,
    more: Vec<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn datafusion_physical_plan::ExecutionPlan>> {
    if more.is_empty() {
        return Ok(plan);
    }
    let mut all = inputs(&plan);
    all.extend(more);
    project(plan, all)
}
