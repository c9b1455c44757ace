//! `GROUP BY` and aggregates.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use eval::data_type;
use hogql::plan::{Aggregate, Grouping};
use hogql::types::{Kind, Type};

use super::leaves::{Layout, Leaf};
use super::numbers::Numbers;
use super::{Lower, Stage, input, one, project, schema_of};
use crate::aggregates::Fold;
use crate::apply::Apply;
use crate::error::{Error, Result};
use crate::steps::StepExec;
use crate::steps::numbered::Numbered;

impl Lower {
    pub(super) fn group(&self, stage: Stage, grouping: &Grouping) -> Result<Stage> {
        let schema = stage.plan.schema();
        let (mut keys, mut texts) = (Vec::new(), Vec::new());
        for (no, key) in grouping.keys.iter().enumerate() {
            let coded = self.coded(key, &stage).map(|coded| (coded, self.numbers()));
            let value = match &coded {
                Some((coded, numbers)) => numbers.of(coded.clone()),
                None => self.value(key, &stage)?,
            };
            keys.push((value, format!("k{no}")));
            texts.push(coded.map(|(_, numbers)| numbers));
        }
        let (mut folds, mut calls, mut filters) = (Vec::new(), Vec::new(), Vec::new());
        for (no, call) in grouping.aggregates.iter().enumerate() {
            let (fold, args) = self.fold(call, &stage)?;
            calls.push(fold.expr(args, &schema, format!("a{no}"))?);
            let filter = call.filter.as_ref().map(|filter| self.condition(filter, &stage));
            filters.push(filter.transpose()?);
            folds.push(fold);
        }
        let several = stage.plan.output_partitioning().partition_count() > 1;
        let merges = several && folds.iter().all(Fold::merges);
        let by_number = matches!(&texts[..], [Some(_)])
            && calls.iter().all(|call| call.groups_accumulator_supported());
        let grouped: Arc<dyn ExecutionPlan> = if merges {
            let groups = Arc::new(PhysicalGroupBy::new_single(keys));
            let none = vec![None; calls.len()];
            let parts = AggregateExec::try_new(
                AggregateMode::Partial,
                groups.clone(),
                calls.clone(),
                filters,
                stage.plan,
                schema.clone(),
            )?;
            let whole = Arc::new(groups.as_final());
            let mode = AggregateMode::Final;
            let parts = one(Arc::new(parts));
            Arc::new(AggregateExec::try_new(mode, whole, calls, none, parts, schema)?)
        } else if by_number && let Some((key, _)) = keys.pop() {
            let types = calls.iter().map(|call| call.field().data_type().clone());
            let schema = schema_of(std::iter::once(DataType::UInt32).chain(types));
            let step = Numbered { schema: schema.clone(), key, calls, filters };
            StepExec::plan(step, vec![one(stage.plan)], schema, 1)
        } else {
            let groups = Arc::new(PhysicalGroupBy::new_single(keys));
            let mode = AggregateMode::Single;
            let input = one(stage.plan);
            Arc::new(AggregateExec::try_new(mode, groups, calls, filters, input, schema)?)
        };
        let first = grouping.keys.len();
        let mut layout = Layout::default();
        let key = |(key, texts): (usize, &Option<Arc<Numbers>>)| match texts {
            Some(numbers) => numbers.texts(input(&grouped, key)),
            None => input(&grouped, key),
        };
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = texts.iter().enumerate().map(key).collect();
        (0..first).for_each(|key| layout.set(Leaf::Key(key), key));
        for (no, fold) in folds.iter().enumerate() {
            exprs.push(fold.finish(input(&grouped, first + no)));
            layout.set(Leaf::Aggregate(no), first + no);
        }
        if exprs.is_empty() {
            // A grouping by nothing of nothing is still a row.
            exprs.push(Arc::new(Literal::new(ScalarValue::UInt8(Some(0)))));
        }
        Ok(Stage { plan: project(grouped, exprs)?, layout, outer: false })
    }

    /// An aggregate and its arguments, in the types that it takes.
    pub(super) fn fold(
        &self,
        call: &Aggregate,
        stage: &Stage,
    ) -> Result<(Fold, Vec<Arc<dyn PhysicalExpr>>)> {
        let types: Vec<Type> = call.args.iter().map(|arg| arg.ty.clone()).collect();
        let Some(ty) = call.function.0.result(&types) else {
            let message = format!("{} cannot take its arguments", call.function.0.name);
            return Err(Error::Invalid { message, span: None });
        };
        // Of texts only which ones are equal counts.
        if let ("uniq" | "uniqExact", [arg]) | ("count", [arg]) =
            (call.function.0.name, &call.args[..])
            && (call.distinct || call.function.0.name != "count")
            && let Some(coded) = self.coded(arg, stage)
        {
            let fold = Fold::new(call, &[DataType::UInt32], &ty)?;
            return Ok((fold, vec![self.numbers().of(coded)]));
        }
        let found: Vec<DataType> = types.iter().map(data_type).collect();
        let fold = Fold::new(call, &found, &ty)?;
        let mut args: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (arg, wanted) in call.args.iter().zip(&fold.args) {
            let mut value = self.value(arg, stage)?;
            if data_type(&arg.ty) != *wanted {
                value = match wanted {
                    DataType::Utf8 => self.cast(
                        value,
                        &arg.ty,
                        &Type::from(Kind::String).or_null(true),
                        arg.span,
                    )?,
                    wanted => Apply::cast(value, wanted.clone()),
                };
            }
            if *wanted == DataType::Float64 {
                value = match call.function.0.name {
                    "min" => numbers_or(value, f64::INFINITY),
                    "max" => numbers_or(value, f64::NEG_INFINITY),
                    _ => value,
                };
            }
            args.push(value);
        }
        if args.is_empty() {
            args.push(Arc::new(Literal::new(ScalarValue::Int64(Some(1)))));
        }
        Ok((fold, args))
    }
}

/// What is no number is neither the least nor the greatest, but it is no missing row either: of
/// nothing else the answer is infinite, which is shown as NaN is.
fn numbers_or(value: Arc<dyn PhysicalExpr>, instead: f64) -> Arc<dyn PhysicalExpr> {
    Apply::expr("number", vec![value], DataType::Float64, move |arrays, _| {
        let numbers = arrays[0].as_primitive::<Float64Type>();
        if !numbers.values().iter().any(|number| number.is_nan()) {
            return Ok(arrays[0].clone());
        }
        let number = |number: f64| if number.is_nan() { instead } else { number };
        let numbers = numbers.iter().map(|found| found.map(number));
        Ok(Arc::new(numbers.collect::<Float64Array>()))
    })
}
