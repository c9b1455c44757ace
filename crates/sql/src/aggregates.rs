//! Aggregates with ClickHouse's semantics.
//!
//! Where DataFusion's aggregate has the same semantics it is used. The others are functions of all rows of a group ([`GroupFunction`]), or keep a small
//! state ([`uniq`], [`pick`]). All skip rows with a null argument. All return null for no rows, which
//! [`LoweredAggregate::finish`] replaces with ClickHouse's value.

pub(crate) mod bitmaps;
pub(crate) mod buffer;
pub(crate) mod collect;
pub(crate) mod combinators;
pub(crate) mod custom;
pub(crate) mod distinct_lists;
pub(crate) mod funnel;
pub(crate) mod group_function;
pub(crate) mod intersections;
pub(crate) mod moments;
pub(crate) mod moving;
pub(crate) mod pick;
pub(crate) mod quantile;
pub(crate) mod sum_map;
pub(crate) mod uniq;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, StructArray, new_empty_array};
use arrow::compute::{and, filter, is_not_null};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate as builtin;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::Column;
use eval::data_type;
use hogql::functions::Combinators;
use hogql::plan::{self, Value};
use hogql::types::{Kind, Type};

use crate::closure_expr::ClosureExpr;
use crate::error::{Error, Result, UNEXPECTED};
use crate::lower::codes::Codes;
use custom::{AggregateState, CustomAggregate};
use group_function::GroupFunction;
use pick::Pick;

/// An aggregate over arguments of Arrow types.
#[derive(Clone, Debug)]
pub(crate) struct LoweredAggregate {
    pub udaf: Arc<AggregateUDF>,
    /// The types that the arguments are cast to.
    pub args: Vec<DataType>,
    pub strategy: Strategy,
    /// The value for no rows.
    pub empty: ScalarValue,
    pub ty: DataType,
}

#[derive(Clone, Debug)]
pub(crate) enum Strategy {
    /// DataFusion's aggregate.
    Engine,
    Group(Arc<dyn GroupFunction>),
}

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl LoweredAggregate {
    /// The aggregate of a call, with its combinators.
    pub(crate) fn of(call: &plan::Aggregate, result: &Type) -> Result<Self> {
        let types: Vec<Type> = call.args.iter().map(|arg| arg.ty.clone()).collect();
        if call.combinators == Combinators::default() {
            let types: Vec<DataType> = types.iter().map(data_type).collect();
            return Self::new(call, &types, result);
        }
        combinators::lowered(call, &types, result)
    }

    /// Without combinators. `args` are the arguments' types and `result` is the result's.
    pub(crate) fn new(call: &plan::Aggregate, args: &[DataType], result: &Type) -> Result<Self> {
        let name = call.function.0.name;
        let refused = |message: &str| {
            let span = call.args.first().map_or_else(Default::default, |arg| arg.span);
            Err(Error::invalid(format!("{name}: {message}."), span))
        };
        match (name, args) {
            ("maxIntersections" | "maxIntersectionsPosition", [start, end]) if start != end => {
                return refused("start and end must have the same type");
            }
            ("groupArrayMovingSum" | "groupArrayMovingAvg", _)
                if first_integer(call) == Some(0) =>
            {
                return refused("the window must not be empty");
            }
            _ => {}
        }
        let ty = data_type(result);
        let null = || ScalarValue::try_from(&ty);
        let floats = || vec![DataType::Float64; args.len()];
        let same = || args.to_vec();
        let engine = |udaf: Arc<AggregateUDF>, args: Vec<DataType>| {
            Ok::<_, Error>(Self {
                udaf,
                args,
                strategy: Strategy::Engine,
                empty: null()?,
                ty: ty.clone(),
            })
        };
        let group = |args: Vec<DataType>, function: Arc<dyn GroupFunction>| {
            let state = AggregateState::Rows(function.clone());
            let udaf = CustomAggregate::udaf(name, state, ty.clone());
            let empty = function.evaluate_filtered(&empty_arrays(&args), None)?;
            let strategy = Strategy::Group(function);
            Ok::<_, Error>(Self { udaf, args, strategy, empty, ty: ty.clone() })
        };
        let picks = |pick: Pick| {
            let udaf = CustomAggregate::udaf(name, AggregateState::Picked(pick), ty.clone());
            let strategy = Strategy::Group(Arc::new(pick) as Arc<dyn GroupFunction>);
            Ok::<_, Error>(Self { udaf, args: same(), strategy, empty: null()?, ty: ty.clone() })
        };
        let aggregate = match name {
            "count" if args.is_empty() => {
                engine(builtin::count::count_udaf(), vec![DataType::Int64])?
            }
            "uniq" | "uniqExact" | "groupBitmap" => Self::uniq(name, same(), &ty),
            "count" if call.distinct => Self::uniq(name, same(), &ty),
            "count" => engine(builtin::count::count_udaf(), same())?,
            "sum" => engine(builtin::sum::sum_udaf(), vec![ty.clone()])?,
            "avg" => engine(builtin::average::avg_udaf(), floats())?,
            "min" => engine(builtin::min_max::min_udaf(), same())?,
            "max" => engine(builtin::min_max::max_udaf(), same())?,
            "any" => picks(Pick::First)?,
            "anyLast" => picks(Pick::Last)?,
            "argMin" => picks(Pick::Least)?,
            "argMax" => picks(Pick::Greatest)?,
            "groupArray" => group(
                same(),
                Arc::new(collect::GroupArray { max: first_integer(call), ty: ty.clone() }),
            )?,
            "groupUniqArray" if first_integer(call).is_none() => {
                Self::distinct_list(same(), None, &ty)?
            }
            "groupUniqArray" => group(
                same(),
                Arc::new(collect::GroupUniqArray { max: first_integer(call), ty: ty.clone() }),
            )?,
            "topK" => {
                let count = first_integer(call).unwrap_or(usize::MAX);
                group(same(), Arc::new(collect::TopK { count, ty: ty.clone() }))?
            }
            "string_agg" => group(vec![DataType::Utf8; args.len()], Arc::new(collect::StringAgg))?,
            "groupArrayLast" => {
                let count = first_integer(call).unwrap_or(usize::MAX);
                group(same(), Arc::new(collect::GroupArrayLast { count, ty: ty.clone() }))?
            }
            "groupArraySorted" => {
                let count = first_integer(call).unwrap_or(usize::MAX);
                group(same(), Arc::new(collect::GroupArraySorted { count, ty: ty.clone() }))?
            }
            "anyHeavy" => group(same(), Arc::new(collect::AnyHeavy))?,
            "medianExact" | "medianExactLow" | "quantileExact" | "quantileExactLow"
            | "quantileExactHigh" => {
                let level = levels(call).first().copied().unwrap_or(0.5);
                let low = name.ends_with("Low");
                group(same(), Arc::new(quantile::Exact { level, low }))?
            }
            "skewPop" => group(floats(), Arc::new(moments::Moments::SkewPop))?,
            "skewSamp" => group(floats(), Arc::new(moments::Moments::SkewSamp))?,
            "kurtPop" => group(floats(), Arc::new(moments::Moments::KurtPop))?,
            "kurtSamp" => group(floats(), Arc::new(moments::Moments::KurtSamp))?,
            "avgWeighted" => group(floats(), Arc::new(moments::WeightedAverage))?,
            "deltaSum" => group(vec![ty.clone()], Arc::new(moments::DeltaSum { ty: ty.clone() }))?,
            "covarPop" => engine(builtin::covariance::covar_pop_udaf(), floats())?,
            "covarSamp" => engine(builtin::covariance::covar_samp_udaf(), floats())?,
            "median" | "quantile" => {
                let level = levels(call).first().copied().unwrap_or(0.5);
                let function = quantile::Quantile(level);
                let udaf = CustomAggregate::udaf(name, AggregateState::Quantile(level), ty.clone());
                let empty = function.evaluate_filtered(&empty_arrays(&floats()), None)?;
                let strategy = Strategy::Group(Arc::new(function) as Arc<dyn GroupFunction>);
                Self { udaf, args: floats(), strategy, empty, ty: ty.clone() }
            }
            "quantiles" => {
                let quantiles = quantile::Quantiles { levels: levels(call), ty: ty.clone() };
                group(floats(), Arc::new(quantiles))?
            }
            "stddevPop" => engine(builtin::stddev::stddev_pop_udaf(), floats())?,
            "stddevSamp" => engine(builtin::stddev::stddev_udaf(), floats())?,
            "varPop" => engine(builtin::variance::var_pop_udaf(), floats())?,
            "varSamp" => engine(builtin::variance::var_samp_udaf(), floats())?,
            "corr" => engine(builtin::correlation::corr_udaf(), floats())?,
            "groupBitOr" => engine(builtin::bit_and_or_xor::bit_or_udaf(), vec![ty.clone()])?,
            "groupBitAnd" => {
                let and = builtin::bit_and_or_xor::bit_and_udaf();
                Self { empty: all_bits(&ty)?, ..engine(and, vec![ty.clone()])? }
            }
            "groupBitXor" => engine(builtin::bit_and_or_xor::bit_xor_udaf(), vec![ty.clone()])?,
            "groupBitmapState" => group(same(), Arc::new(bitmaps::Members { ty: ty.clone() }))?,
            "groupBitmapAnd"
            | "groupBitmapOr"
            | "groupBitmapXor"
            | "groupBitmapAndState"
            | "groupBitmapOrState"
            | "groupBitmapXorState" => {
                group(same(), Arc::new(bitmaps::Combine::named(name, ty.clone())))?
            }
            "groupArrayMovingSum" => {
                let window = first_integer(call);
                let element = collect::element(&ty)?.data_type().clone();
                group(vec![element], Arc::new(moving::MovingSum { window, ty: ty.clone() }))?
            }
            "groupArrayMovingAvg" => {
                let window = first_integer(call);
                group(floats(), Arc::new(moving::MovingAverage { window, ty: ty.clone() }))?
            }
            "maxIntersections" => {
                let both = vec![args[0].clone(); 2];
                group(both, Arc::new(intersections::MaxIntersections))?
            }
            "maxIntersectionsPosition" => {
                let both = vec![args[0].clone(); 2];
                group(both, Arc::new(intersections::MaxIntersectionsPosition))?
            }
            "simpleLinearRegression" => {
                group(floats(), Arc::new(moments::LinearRegression { ty: ty.clone() }))?
            }
            "sumMap" => group(same(), Arc::new(sum_map::SumMap { ty: ty.clone() }))?,
            "windowFunnel" => {
                let mut args = vec![DataType::Boolean; args.len()];
                args[0] = TIMESTAMP;
                let seconds = first_integer(call).unwrap_or(0);
                let has_mode =
                    |mode: &str| call.parameters.contains(&Value::String(mode.to_owned()));
                let funnel = funnel::Funnel {
                    seconds: seconds as i64,
                    in_strict_order: has_mode("strict_order"),
                    at_later_times: has_mode("strict_increase"),
                };
                let udaf = CustomAggregate::udaf(name, AggregateState::Funnel(funnel), ty.clone());
                let empty = funnel.evaluate_filtered(&empty_arrays(&args), None)?;
                let strategy = Strategy::Group(Arc::new(funnel) as Arc<dyn GroupFunction>);
                Self { udaf, args, strategy, empty, ty: ty.clone() }
            }
            other => {
                let message = format!("{other} is no aggregate that can be computed");
                return Err(Error::engine(UNEXPECTED, message));
            }
        };
        let empty = empty_value(name, aggregate.empty, result)?;
        let aggregate = Self { empty, ..aggregate };
        let counts_duplicates = !matches!(
            name,
            "count"
                | "uniq"
                | "uniqExact"
                | "min"
                | "max"
                | "any"
                | "anyLast"
                | "argMin"
                | "argMax"
                | "groupUniqArray"
        );
        if call.distinct && counts_duplicates { aggregate.distinct(name) } else { Ok(aggregate) }
    }

    fn uniq(name: &'static str, args: Vec<DataType>, ty: &DataType) -> Self {
        let udaf = CustomAggregate::udaf(name, AggregateState::Distinct, ty.clone());
        let strategy = Strategy::Group(Arc::new(uniq::Uniq));
        Self { udaf, args, strategy, empty: ScalarValue::UInt64(Some(0)), ty: ty.clone() }
    }

    /// A list of distinct values.
    fn distinct_list(args: Vec<DataType>, codes: Option<Codes>, ty: &DataType) -> Result<Self> {
        let state = AggregateState::DistinctLists(codes);
        let udaf = CustomAggregate::udaf("groupUniqArray", state, ty.clone());
        let function = collect::GroupUniqArray { max: None, ty: ty.clone() };
        let empty = collect::list(ty, new_empty_array(collect::element(ty)?.data_type()))?;
        Ok(Self {
            udaf,
            args,
            strategy: Strategy::Group(Arc::new(function)),
            empty,
            ty: ty.clone(),
        })
    }

    /// The number of distinct codes, or the list of what they stand for.
    pub(crate) fn of_codes(call: &plan::Aggregate, codes: &Codes, ty: &Type) -> Result<Self> {
        let ty = data_type(ty);
        if call.function.0.name == "groupUniqArray" {
            return Self::distinct_list(vec![DataType::UInt32], Some(codes.clone()), &ty);
        }
        let udaf = CustomAggregate::udaf("uniq", AggregateState::DistinctCodes, ty.clone());
        let strategy = Strategy::Group(Arc::new(uniq::Uniq) as Arc<dyn GroupFunction>);
        let args = vec![DataType::UInt32];
        Ok(Self { udaf, args, strategy, empty: ScalarValue::UInt64(Some(0)), ty })
    }

    /// The same aggregate over distinct arguments.
    fn distinct(self, name: &'static str) -> Result<Self> {
        let inner: Arc<dyn GroupFunction> = match &self.strategy {
            Strategy::Group(function) => function.clone(),
            Strategy::Engine => {
                let expr = self.standalone()?;
                Arc::new(group_function::Engine { expr, ty: self.ty.clone() })
            }
        };
        let function: Arc<dyn GroupFunction> = Arc::new(group_function::Distinct(inner));
        let state = AggregateState::Rows(function.clone());
        let udaf = CustomAggregate::udaf(name, state, self.ty.clone());
        Ok(Self { udaf, strategy: Strategy::Group(function), ..self })
    }

    /// The aggregate as DataFusion's expression.
    pub(crate) fn expr(
        &self,
        args: Vec<Arc<dyn PhysicalExpr>>,
        schema: &Arc<Schema>,
        alias: String,
    ) -> Result<Arc<AggregateFunctionExpr>> {
        let builder = AggregateExprBuilder::new(self.udaf.clone(), args);
        Ok(Arc::new(builder.schema(schema.clone()).alias(alias).build()?))
    }

    /// The aggregate over an input that has its arguments as its only columns.
    pub(crate) fn standalone(&self) -> Result<Arc<AggregateFunctionExpr>> {
        let fields = self.args.iter().enumerate();
        let fields = fields.map(|(no, ty)| Field::new(format!("{no}"), ty.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = (0..self.args.len())
            .map(|no| Arc::new(Column::new(&no.to_string(), no)) as Arc<dyn PhysicalExpr>);
        self.expr(columns.collect(), &schema, "standalone".to_owned())
    }

    /// The aggregate's result in the plan's type, with ClickHouse's value for no rows.
    pub(crate) fn finish(&self, result: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let (ty, empty) = (self.ty.clone(), self.empty.clone());
        ClosureExpr::expr("result", vec![result], self.ty.clone(), move |arrays, _| {
            Ok(fill_empty(&arrays[0], &ty, &empty)?)
        })
    }
}

/// ClickHouse's value of an aggregate without rows. `own` is what the aggregate returns.
fn empty_value(name: &str, own: ScalarValue, result: &Type) -> Result<ScalarValue> {
    let is_nan = matches!(
        name,
        "avg"
            | "avgWeighted"
            | "median"
            | "quantile"
            | "stddevPop"
            | "stddevSamp"
            | "varPop"
            | "varSamp"
            | "corr"
            | "covarPop"
            | "covarSamp"
            | "skewPop"
            | "skewSamp"
            | "kurtPop"
            | "kurtSamp"
    );
    // Quantiles that are not interpolated have the type of their values.
    let is_exact = name.starts_with("quantileExact") || name.starts_with("medianExact");
    let is_nan = is_nan || (is_exact && result.kind == Kind::Float);
    match (own.is_null() || result.nullable, is_nan && !result.nullable) {
        (true, true) => Ok(ScalarValue::Float64(Some(f64::NAN))),
        (true, false) => default_of(&data_type(result), result.nullable),
        (false, _) => Ok(own),
    }
}

/// ClickHouse's default value of a type; null if it is nullable.
pub(crate) fn default_of(ty: &DataType, nullable: bool) -> Result<ScalarValue> {
    Ok(match ty {
        _ if nullable => ScalarValue::try_from(ty)?,
        DataType::FixedSizeBinary(size) => {
            ScalarValue::FixedSizeBinary(*size, Some(vec![0; *size as usize]))
        }
        DataType::Struct(fields) => {
            let members = fields.iter().map(|field| {
                default_of(field.data_type(), field.is_nullable())?.to_array().map_err(Into::into)
            });
            let members = members.collect::<Result<Vec<ArrayRef>>>()?;
            let default = StructArray::try_new_with_length(fields.clone(), members, None, 1)?;
            ScalarValue::Struct(Arc::new(default))
        }
        ty => ScalarValue::new_default(ty)?,
    })
}

/// Casts to the type, and replaces nulls with the value for no rows.
pub(crate) fn fill_empty(array: &ArrayRef, ty: &DataType, empty: &ScalarValue) -> Result<ArrayRef> {
    let array =
        if array.data_type() == ty { array.clone() } else { arrow::compute::cast(array, ty)? };
    if empty.is_null() || array.null_count() == 0 {
        return Ok(array);
    }
    let missing = arrow::compute::is_null(&array)?;
    Ok(arrow::compute::kernels::zip::zip(&missing, &empty.to_scalar()?, &array)?)
}

/// The rows to aggregate: no argument is null, and the filter holds. None means all rows.
pub(crate) fn counted_rows(
    args: &[ArrayRef],
    filter: Option<&BooleanArray>,
) -> Result<Option<BooleanArray>> {
    let mut all: Option<BooleanArray> = filter.map(|filter| match filter.null_count() {
        0 => filter.clone(),
        _ => arrow::compute::prep_null_mask_filter(filter),
    });
    for arg in args.iter().filter(|arg| arg.logical_null_count() > 0) {
        let valid = is_not_null(arg)?;
        all = Some(match all {
            Some(before) => and(&before, &valid)?,
            None => valid,
        });
    }
    Ok(all.filter(|all| all.true_count() < all.len()))
}

pub(crate) fn filter_arrays(
    args: &[ArrayRef],
    rows: Option<&BooleanArray>,
) -> Result<Vec<ArrayRef>> {
    match rows {
        None => Ok(args.to_vec()),
        Some(rows) => args.iter().map(|arg| Ok(filter(arg, rows)?)).collect(),
    }
}

/// The values in the order of their groups, and where each group's begin: group `g` has those from
/// `starts[g]` to `starts[g + 1]`. A counting sort.
pub(crate) fn sorted_by_group<T: Copy + Default>(
    groups: &[u32],
    total: usize,
    value: impl Fn(usize) -> T,
) -> (Vec<T>, Vec<usize>) {
    let mut starts = vec![0usize; total + 1];
    groups.iter().for_each(|group| starts[*group as usize + 1] += 1);
    (0..total).for_each(|group| starts[group + 1] += starts[group]);
    let mut sorted = vec![T::default(); groups.len()];
    let mut next = starts.clone();
    for (row, group) in groups.iter().enumerate() {
        let at = &mut next[*group as usize];
        sorted[*at] = value(row);
        *at += 1;
    }
    (sorted, starts)
}

fn empty_arrays(types: &[DataType]) -> Vec<ArrayRef> {
    types.iter().map(new_empty_array).collect()
}

fn first_integer(call: &plan::Aggregate) -> Option<usize> {
    call.parameters.iter().find_map(|value| match value {
        Value::UInt(count) => Some(usize::try_from(*count).unwrap_or(usize::MAX)),
        _ => None,
    })
}

fn levels(call: &plan::Aggregate) -> Vec<f64> {
    let levels = call.parameters.iter().filter_map(|value| match value {
        Value::Float(level) => Some(*level),
        Value::UInt(level) => Some(*level as f64),
        _ => None,
    });
    levels.collect()
}

/// The identity of bitwise AND.
fn all_bits(ty: &DataType) -> Result<ScalarValue> {
    Ok(match ty {
        DataType::Int8 => ScalarValue::Int8(Some(-1)),
        DataType::Int16 => ScalarValue::Int16(Some(-1)),
        DataType::Int32 => ScalarValue::Int32(Some(-1)),
        DataType::Int64 => ScalarValue::Int64(Some(-1)),
        DataType::UInt8 => ScalarValue::UInt8(Some(u8::MAX)),
        DataType::UInt16 => ScalarValue::UInt16(Some(u16::MAX)),
        DataType::UInt32 => ScalarValue::UInt32(Some(u32::MAX)),
        DataType::UInt64 => ScalarValue::UInt64(Some(u64::MAX)),
        other => ScalarValue::try_from(other)?,
    })
}
