//! `GROUP BY` and aggregates.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array, UInt32Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::ScalarValue;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal;
use eval::data_type;
use hogql::plan::{self, Aggregate};
use hogql::types::{Kind, Type};

use super::codes::{CodeOf, Codes, compares_only};
use super::global_codes::{GlobalCodes, NULL_CODE};
use super::leaves::{Layout, Leaf};
use super::{Lowering, Stage, input, project, schema_of};
use crate::aggregates::LoweredAggregate;
use crate::closure_expr::ClosureExpr;
use crate::error::{Error, Result};
use crate::operators::group_by::{GroupCall, GroupKey, Grouping, TopGroups, group_by};

/// The codes of an aggregate's argument, what they stand for, and the aggregate's type.
type CodedArgument = (Arc<dyn PhysicalExpr>, Codes, Type);

impl Lowering {
    pub(super) fn group(
        &self,
        stage: Stage,
        grouping: &plan::Grouping,
        top: Option<TopGroups>,
    ) -> Result<Stage> {
        let schema = stage.plan.schema();
        let (mut keys, mut types) = (Vec::new(), Vec::new());
        for (no, key) in grouping.keys.iter().enumerate() {
            let ty = data_type(&key.ty);
            keys.push(match stage.layout.code(CodeOf::Key(no)) {
                Some((column, codes)) => GroupKey::coded(input(&stage.plan, column), codes.clone()),
                None => {
                    let encoded = self.encoded_column(key, &stage);
                    let value = encoded.map_or_else(|| self.value(key, &stage), Ok)?;
                    GroupKey::of(value, ty.clone(), self.task.memory_pool())?
                }
            });
            types.push(ty);
        }
        let (mut aggregates, mut calls) = (Vec::new(), Vec::new());
        for (no, call) in grouping.aggregates.iter().enumerate() {
            let (aggregate, args) = match self.codes(call, no, &stage)? {
                Some((value, codes, ty)) => {
                    (LoweredAggregate::of_codes(call, &codes, &ty)?, vec![value])
                }
                None => self.aggregate(call, &stage)?,
            };
            let filter = call.filter.as_ref().map(|filter| self.condition(filter, &stage));
            let expr = aggregate.expr(args, &schema, format!("a{no}"))?;
            types.push(expr.field().data_type().clone());
            let (types, filter) = (aggregate.args.clone(), filter.transpose()?);
            calls.push(GroupCall { call: expr, types, filter });
            aggregates.push(aggregate);
        }
        let first = grouping.keys.len();
        let schema = schema_of(types);
        let grouped = group_by(stage.plan, Grouping { schema, keys, calls, top });
        let mut layout = Layout::default();
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> =
            (0..first).map(|key| input(&grouped, key)).collect();
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

    /// The codes of the only argument of an aggregate that compares its values.
    fn codes(&self, call: &Aggregate, no: usize, stage: &Stage) -> Result<Option<CodedArgument>> {
        let Some(ty) = call.ty().filter(|_| compares_only(call)) else { return Ok(None) };
        if let Some((column, codes)) = stage.layout.code(CodeOf::Argument(no)) {
            return Ok(Some((input(&stage.plan, column), codes.clone(), ty)));
        }
        let Some(column) = self.encoded_column(&call.args[0], stage) else { return Ok(None) };
        let consumer = MemoryConsumer::new("string codes");
        let codes = GlobalCodes::new(consumer.register(self.task.memory_pool()));
        let strings = codes.clone();
        let value = ClosureExpr::expr("code", vec![column], DataType::UInt32, move |arrays, _| {
            let codes = strings.encode(&arrays[0])?;
            let code = |code: u32| (code != NULL_CODE).then_some(code);
            Ok(Arc::new(codes.into_iter().map(code).collect::<UInt32Array>()))
        });
        Ok(Some((value, Codes::Strings(codes), ty)))
    }

    /// An aggregate and its arguments, cast to the types that it takes.
    pub(super) fn aggregate(
        &self,
        call: &Aggregate,
        stage: &Stage,
    ) -> Result<(LoweredAggregate, Vec<Arc<dyn PhysicalExpr>>)> {
        let Some(ty) = call.ty() else {
            let message = format!("{} cannot take its arguments", call.function.0.name);
            return Err(Error::Invalid { message, span: None });
        };
        let aggregate = LoweredAggregate::of(call, &ty)?;
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
