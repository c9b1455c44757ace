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

use super::global_codes::GlobalCodes;
use super::leaves::{Layout, Leaf};
use super::{Lowering, Stage, input, project, schema_of, single_partition};
use crate::aggregates::LoweredAggregate;
use crate::closure_expr::ClosureExpr;
use crate::error::{Error, Result};
use crate::operators::OperatorExec;
use crate::operators::dense_group_by::DenseGroupBy;

impl Lowering {
    pub(super) fn group(&self, stage: Stage, grouping: &Grouping) -> Result<Stage> {
        let schema = stage.plan.schema();
        let (mut keys, mut key_codes) = (Vec::new(), Vec::new());
        for (no, key) in grouping.keys.iter().enumerate() {
            let encoded = self.encoded_column(key, &stage);
            let encoded = encoded.map(|column| (column, self.global_codes()));
            let value = match &encoded {
                Some((column, codes)) => codes.encode(column.clone()),
                None => self.value(key, &stage)?,
            };
            keys.push((value, format!("k{no}")));
            key_codes.push(encoded.map(|(_, codes)| codes));
        }
        let (mut aggregates, mut calls, mut filters) = (Vec::new(), Vec::new(), Vec::new());
        for (no, call) in grouping.aggregates.iter().enumerate() {
            let (aggregate, args) = self.aggregate(call, &stage)?;
            calls.push(aggregate.expr(args, &schema, format!("a{no}"))?);
            let filter = call.filter.as_ref().map(|filter| self.condition(filter, &stage));
            filters.push(filter.transpose()?);
            aggregates.push(aggregate);
        }
        let is_partitioned = stage.plan.output_partitioning().partition_count() > 1;
        let merges = is_partitioned && aggregates.iter().all(LoweredAggregate::merges);
        let has_dense_key = matches!(&key_codes[..], [Some(_)])
            && calls.iter().all(|call| call.groups_accumulator_supported());
        let grouped: Arc<dyn ExecutionPlan> = if merges {
            let groups = Arc::new(PhysicalGroupBy::new_single(keys));
            let none = vec![None; calls.len()];
            let partial = AggregateExec::try_new(
                AggregateMode::Partial,
                groups.clone(),
                calls.clone(),
                filters,
                stage.plan,
                schema.clone(),
            )?;
            let merged = Arc::new(groups.as_final());
            let mode = AggregateMode::Final;
            let partial = single_partition(Arc::new(partial));
            Arc::new(AggregateExec::try_new(mode, merged, calls, none, partial, schema)?)
        } else if has_dense_key && let Some((key, _)) = keys.pop() {
            let types = calls.iter().map(|call| call.field().data_type().clone());
            let schema = schema_of(std::iter::once(DataType::UInt32).chain(types));
            let operator = DenseGroupBy { schema: schema.clone(), key, calls, filters };
            OperatorExec::plan(operator, vec![single_partition(stage.plan)], schema, 1)
        } else {
            let groups = Arc::new(PhysicalGroupBy::new_single(keys));
            let mode = AggregateMode::Single;
            let input = single_partition(stage.plan);
            Arc::new(AggregateExec::try_new(mode, groups, calls, filters, input, schema)?)
        };
        let first = grouping.keys.len();
        let mut layout = Layout::default();
        let key = |(key, codes): (usize, &Option<Arc<GlobalCodes>>)| match codes {
            Some(codes) => codes.decode(input(&grouped, key)),
            None => input(&grouped, key),
        };
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = key_codes.iter().enumerate().map(key).collect();
        (0..first).for_each(|key| layout.set(Leaf::Key(key), key));
        for (no, aggregate) in aggregates.iter().enumerate() {
            exprs.push(aggregate.finish(input(&grouped, first + no)));
            layout.set(Leaf::Aggregate(no), first + no);
        }
        if exprs.is_empty() {
            // A grouping without keys and aggregates still has one row.
            exprs.push(Arc::new(Literal::new(ScalarValue::UInt8(Some(0)))));
        }
        Ok(Stage { plan: project(grouped, exprs)?, layout, outer: false })
    }

    /// An aggregate and its arguments, cast to the types that it takes.
    pub(super) fn aggregate(
        &self,
        call: &Aggregate,
        stage: &Stage,
    ) -> Result<(LoweredAggregate, Vec<Arc<dyn PhysicalExpr>>)> {
        let types: Vec<Type> = call.args.iter().map(|arg| arg.ty.clone()).collect();
        let Some(ty) = call.function.0.result(&types) else {
            let message = format!("{} cannot take its arguments", call.function.0.name);
            return Err(Error::Invalid { message, span: None });
        };
        // These only compare strings for equality, so global codes will do.
        if let ("uniq" | "uniqExact", [arg]) | ("count", [arg]) =
            (call.function.0.name, &call.args[..])
            && (call.distinct || call.function.0.name != "count")
            && let Some(encoded) = self.encoded_column(arg, stage)
        {
            let aggregate = LoweredAggregate::new(call, &[DataType::UInt32], &ty)?;
            return Ok((aggregate, vec![self.global_codes().encode(encoded)]));
        }
        let arg_types: Vec<DataType> = types.iter().map(data_type).collect();
        let aggregate = LoweredAggregate::new(call, &arg_types, &ty)?;
        let mut args: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (arg, target) in call.args.iter().zip(&aggregate.args) {
            let mut value = self.value(arg, stage)?;
            if data_type(&arg.ty) != *target {
                value = match target {
                    DataType::Utf8 => self.cast(
                        value,
                        &arg.ty,
                        &Type::from(Kind::String).or_null(true),
                        arg.span,
                    )?,
                    target => ClosureExpr::cast(value, target.clone()),
                };
            }
            if *target == DataType::Float64 {
                value = match call.function.0.name {
                    "min" => replace_nan(value, f64::INFINITY),
                    "max" => replace_nan(value, f64::NEG_INFINITY),
                    _ => value,
                };
            }
            args.push(value);
        }
        if args.is_empty() {
            args.push(Arc::new(Literal::new(ScalarValue::Int64(Some(1)))));
        }
        Ok((aggregate, args))
    }
}

/// Replaces NaN before `min` and `max`, which ignore it unless a group has nothing else. The result
/// is then infinite, and JSON shows that as it shows NaN.
fn replace_nan(value: Arc<dyn PhysicalExpr>, instead: f64) -> Arc<dyn PhysicalExpr> {
    ClosureExpr::expr("number", vec![value], DataType::Float64, move |arrays, _| {
        let numbers = arrays[0].as_primitive::<Float64Type>();
        if !numbers.values().iter().any(|number| number.is_nan()) {
            return Ok(arrays[0].clone());
        }
        let number = |number: f64| if number.is_nan() { instead } else { number };
        let numbers = numbers.iter().map(|value| value.map(number));
        Ok(Arc::new(numbers.collect::<Float64Array>()))
    })
}
