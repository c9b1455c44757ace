//! Lowers window functions. Those with the same `PARTITION BY` and `ORDER BY` share one sort.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::sorts::sort::SortExec;
use eval::data_type;
use hogql::ast::{Bound, FrameUnit};
use hogql::functions::FunctionKind;
use hogql::plan::{ExprKind, Value, WindowCall};

use super::expressions::sortable;
use super::leaves::Leaf;
use super::{Lowering, Stage, column, inputs, project, schema_of, single_partition};
use crate::aggregates::default_of;
use crate::error::{Error, Result, UNEXPECTED};
use crate::operators::OperatorExec;
use crate::operators::window::{Call, Frame, Function, Window};

impl Lowering {
    pub(super) fn windows(&self, mut stage: Stage, windows: &[WindowCall]) -> Result<Stage> {
        let mut done = vec![false; windows.len()];
        for no in 0..windows.len() {
            if done[no] {
                continue;
            }
            let group: Vec<usize> = (no..windows.len())
                .filter(|other| {
                    let (window, other) = (&windows[no], &windows[*other]);
                    window.partition == other.partition && window.order == other.order
                })
                .collect();
            group.iter().for_each(|no| done[*no] = true);
            stage = self.window_group(stage, windows, &group)?;
        }
        Ok(stage)
    }

    fn window_group(&self, stage: Stage, windows: &[WindowCall], group: &[usize]) -> Result<Stage> {
        let before = stage.plan.schema();
        let plain = before.fields().len();
        let mut exprs = inputs(&stage.plan);
        let mut types: Vec<DataType> =
            before.fields().iter().map(|field| field.data_type().clone()).collect();
        let first = &windows[group[0]];
        let (mut partition, mut sort) = (Vec::new(), Vec::new());
        for key in &first.partition {
            let ty = data_type(&key.ty);
            partition.push(exprs.len());
            sort.push(PhysicalSortExpr::new_default(column(exprs.len())));
            exprs.push(sortable(self.value(key, &stage)?, &ty, self.cancellation.memory())?);
            types.push(if ty.is_nested() { DataType::Binary } else { ty });
        }
        let mut order = Vec::new();
        for key in &first.order {
            let ty = data_type(&key.expr.ty);
            order.push((exprs.len(), key.descending));
            sort.push(self.order(key, &stage, &mut exprs)?);
            types.push(if ty.is_nested() { DataType::Binary } else { ty });
        }
        let mut calls = Vec::new();
        for no in group {
            calls.push(self.window_call(&windows[*no], &stage, &mut exprs, &mut types)?);
        }
        let width = exprs.len();
        let mut input = single_partition(project(stage.plan, exprs)?);
        if let Some(ordering) = LexOrdering::new(sort) {
            input = Arc::new(SortExec::new(ordering, input));
        }
        types.extend(calls.iter().map(|call| call.ty.clone()));
        let schema = schema_of(types);
        let cancellation = self.cancellation.clone();
        let operator = Window { schema: schema.clone(), partition, order, calls, cancellation };
        let plan: Arc<dyn ExecutionPlan> = OperatorExec::plan(operator, vec![input], schema, 1);
        // Drops the columns that only the windows read.
        let visible = (0..plain).chain(width..width + group.len());
        let plan = project(plan, visible.map(column).collect())?;
        let mut layout = stage.layout;
        for (at, no) in group.iter().enumerate() {
            layout.set(Leaf::Window(*no), plain + at);
        }
        Ok(Stage { plan, layout, ..stage })
    }

    fn window_call(
        &self,
        window: &WindowCall,
        stage: &Stage,
        exprs: &mut Vec<Arc<dyn PhysicalExpr>>,
        types: &mut Vec<DataType>,
    ) -> Result<Call> {
        let call = &window.call;
        let Some(result) = call.ty() else {
            return Err(Error::engine(UNEXPECTED, "a window function without a type"));
        };
        let ty = data_type(&result);
        let mut add = |value: Arc<dyn PhysicalExpr>, ty: DataType| {
            exprs.push(value);
            types.push(ty);
            exprs.len() - 1
        };
        let mut args = Vec::new();
        let function = if call.function.0.kind == FunctionKind::Aggregate {
            let (aggregate, values) = self.aggregate(call, stage)?;
            for (value, ty) in values.into_iter().zip(&aggregate.args) {
                args.push(add(value, ty.clone()));
            }
            Function::Aggregate(aggregate)
        } else {
            // Arguments: the value, the offset, and the default; or a number of buckets.
            let values = if call.function.0.name == "ntile" { &[] } else { &call.args[..] };
            for arg in values.iter().step_by(2) {
                let value = self.value(arg, stage)?;
                let value = self.cast(value, &arg.ty, &result, arg.span)?;
                args.push(add(value, ty.clone()));
            }
            self.function(window)?
        };
        let filter = match &call.filter {
            Some(filter) => Some(add(self.condition(filter, stage)?, DataType::Boolean)),
            None => None,
        };
        let empty = default_of(&ty, result.nullable)?;
        Ok(Call { function, args, filter, frame: frame(window), ty, empty })
    }

    fn function(&self, window: &WindowCall) -> Result<Function> {
        let offset = match window.call.args.get(1).map(|arg| &arg.kind) {
            Some(ExprKind::Value(Value::UInt(offset))) => {
                i64::try_from(*offset).unwrap_or(i64::MAX)
            }
            Some(ExprKind::Value(Value::Int(offset))) => *offset,
            _ => 1,
        };
        Ok(match window.call.function.0.name {
            "row_number" => Function::RowNumber,
            "rank" => Function::Rank,
            "dense_rank" => Function::DenseRank,
            "percent_rank" => Function::PercentRank,
            "cume_dist" => Function::CumeDist,
            "ntile" => match window.call.args.first().map(|arg| &arg.kind) {
                Some(ExprKind::Value(Value::UInt(buckets @ 1..))) => Function::Ntile(*buckets),
                _ => {
                    let message = "ntile takes a constant number of buckets above 0".to_owned();
                    return Err(Error::Invalid { message, span: None });
                }
            },
            "lag" => Function::Offset(offset),
            "lead" => Function::Offset(offset.saturating_neg()),
            "lagInFrame" => Function::OffsetInFrame(offset),
            "leadInFrame" => Function::OffsetInFrame(offset.saturating_neg()),
            "first_value" => Function::First,
            "last_value" => Function::Last,
            "nth_value" => Function::Nth(u64::try_from(offset).unwrap_or(0)),
            other => return Err(Error::engine(UNEXPECTED, format!("no window function {other}"))),
        })
    }
}

fn frame(window: &WindowCall) -> Frame {
    let (unit, start, end) = window.frame.unwrap_or(match window.order.is_empty() {
        true => (FrameUnit::Rows, Bound::UnboundedPreceding, Bound::UnboundedFollowing),
        false => (FrameUnit::Range, Bound::UnboundedPreceding, Bound::CurrentRow),
    });
    Frame { unit, start, end }
}
