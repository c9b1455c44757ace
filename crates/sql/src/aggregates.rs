//! Aggregates with ClickHouse's meaning.
//!
//! What the engine computes alike is left to it, and may be computed in parts. The others are
//! functions of all rows of a group ([`whole::Whole`]), or keep little of them ([`uniq`],
//! [`pick`]). A row with a null among the arguments does not count, for any of them. Whatever
//! computes it gives null for no rows, and [`Fold::finish`] puts in its place what ClickHouse says.

pub(crate) mod buffer;
pub(crate) mod collect;
pub(crate) mod funnel;
pub(crate) mod own;
pub(crate) mod pick;
pub(crate) mod quantile;
pub(crate) mod sum_map;
pub(crate) mod uniq;
pub(crate) mod whole;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow::compute::{and, filter, is_not_null};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate as builtin;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::Column;
use eval::data_type;
use hogql::plan::{self, Value};
use hogql::types::Type;

use crate::apply::Apply;
use crate::error::{Error, Result, UNEXPECTED};
use own::{Keeps, Own};
use pick::Pick;
use whole::Whole;

/// An aggregate that is ready to run on arguments of the engine's types.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub function: Arc<AggregateUDF>,
    /// To which its arguments are cast first.
    pub args: Vec<DataType>,
    pub how: How,
    /// What nothing gives.
    pub empty: ScalarValue,
    pub ty: DataType,
}

#[derive(Clone, Debug)]
pub(crate) enum How {
    /// By the engine, also in parts.
    Engine,
    Whole(Arc<dyn Whole>),
}

const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl Fold {
    /// `args` are the arguments' types and `result` is the result's.
    pub(crate) fn new(call: &plan::Aggregate, args: &[DataType], result: &Type) -> Result<Self> {
        let name = call.function.0.name;
        let ty = data_type(result);
        let null = || ScalarValue::try_from(&ty);
        let floats = || vec![DataType::Float64; args.len()];
        let same = || args.to_vec();
        let engine = |function: Arc<AggregateUDF>, args: Vec<DataType>| {
            Ok::<_, Error>(Self {
                function,
                args,
                how: How::Engine,
                empty: null()?,
                ty: ty.clone(),
            })
        };
        let whole = |args: Vec<DataType>, whole: Arc<dyn Whole>| {
            let function = Own::function(name, Keeps::Rows(whole.clone()), ty.clone());
            let empty = whole.value(&arrays_of_none(&args), None)?;
            Ok::<_, Error>(Self { function, args, how: How::Whole(whole), empty, ty: ty.clone() })
        };
        let picks = |pick: Pick| {
            let function = Own::function(name, Keeps::One(pick), ty.clone());
            let how = How::Whole(Arc::new(pick) as Arc<dyn Whole>);
            Ok::<_, Error>(Self { function, args: same(), how, empty: null()?, ty: ty.clone() })
        };
        let fold = match name {
            "count" if args.is_empty() => {
                let one = vec![DataType::Int64];
                engine(builtin::count::count_udaf(), one)?
            }
            "uniq" | "uniqExact" => Self::uniq(name, same(), &ty),
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
            "groupArray" => whole(
                same(),
                Arc::new(collect::GroupArray { max: first_count(call), ty: ty.clone() }),
            )?,
            "groupUniqArray" => whole(
                same(),
                Arc::new(collect::GroupUniqArray { max: first_count(call), ty: ty.clone() }),
            )?,
            "topK" => {
                let count = first_count(call).unwrap_or(usize::MAX);
                whole(same(), Arc::new(collect::TopK { count, ty: ty.clone() }))?
            }
            "string_agg" => whole(vec![DataType::Utf8; args.len()], Arc::new(collect::StringAgg))?,
            "median" => whole(floats(), Arc::new(quantile::Quantile(0.5)))?,
            "quantile" => {
                let level = levels(call).first().copied().unwrap_or(0.5);
                whole(floats(), Arc::new(quantile::Quantile(level)))?
            }
            "quantiles" => {
                let quantiles = quantile::Quantiles { levels: levels(call), ty: ty.clone() };
                whole(floats(), Arc::new(quantiles))?
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
            "sumMap" => whole(same(), Arc::new(sum_map::SumMap { ty: ty.clone() }))?,
            "windowFunnel" => {
                let mut args = vec![DataType::Boolean; args.len()];
                args[0] = MOMENT;
                let seconds = first_count(call).unwrap_or(0);
                whole(args, Arc::new(funnel::Funnel { seconds: seconds as i64 }))?
            }
            other => {
                let message = format!("{other} is no aggregate that can be computed");
                return Err(Error::engine(UNEXPECTED, message));
            }
        };
        let fold = Self { empty: of_nothing(name, fold.empty, result)?, ..fold };
        let repeats_matter = !matches!(
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
        if call.distinct && repeats_matter { fold.of_distinct(name) } else { Ok(fold) }
    }

    fn uniq(name: &'static str, args: Vec<DataType>, ty: &DataType) -> Self {
        let function = Own::function(name, Keeps::Kinds, ty.clone());
        let empty = ScalarValue::UInt64(Some(0));
        Self { function, args, how: How::Whole(Arc::new(uniq::Uniq)), empty, ty: ty.clone() }
    }

    fn of_distinct(self, name: &'static str) -> Result<Self> {
        let inner: Arc<dyn Whole> = match &self.how {
            How::Whole(whole) => whole.clone(),
            How::Engine => Arc::new(whole::Engine { expr: self.alone()?, ty: self.ty.clone() }),
        };
        let whole: Arc<dyn Whole> = Arc::new(whole::Distinct(inner));
        let function = Own::function(name, Keeps::Rows(whole.clone()), self.ty.clone());
        Ok(Self { function, how: How::Whole(whole), ..self })
    }

    /// Whether parts of a group may be computed apart and then put together.
    pub(crate) fn merges(&self) -> bool {
        matches!(self.how, How::Engine)
    }

    /// As a column of the engine's grouping.
    pub(crate) fn expr(
        &self,
        args: Vec<Arc<dyn PhysicalExpr>>,
        schema: &Arc<Schema>,
        alias: String,
    ) -> Result<Arc<AggregateFunctionExpr>> {
        let builder = AggregateExprBuilder::new(self.function.clone(), args);
        Ok(Arc::new(builder.schema(schema.clone()).alias(alias).build()?))
    }

    /// On columns of nothing but its arguments.
    pub(crate) fn alone(&self) -> Result<Arc<AggregateFunctionExpr>> {
        let fields = self.args.iter().enumerate();
        let fields = fields.map(|(no, ty)| Field::new(format!("{no}"), ty.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = (0..self.args.len())
            .map(|no| Arc::new(Column::new(&no.to_string(), no)) as Arc<dyn PhysicalExpr>);
        self.expr(columns.collect(), &schema, "alone".to_owned())
    }

    /// The aggregate's own result as the plan's type wants it.
    pub(crate) fn finish(&self, result: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let (ty, empty) = (self.ty.clone(), self.empty.clone());
        Apply::expr("result", vec![result], self.ty.clone(), move |arrays, _| {
            Ok(finished(&arrays[0], &ty, &empty)?)
        })
    }
}

/// What an aggregate of no rows is. `found` is what it says itself.
fn of_nothing(name: &str, found: ScalarValue, result: &Type) -> Result<ScalarValue> {
    let divides = matches!(
        name,
        "avg" | "median" | "quantile" | "stddevPop" | "stddevSamp" | "varPop" | "varSamp" | "corr"
    );
    match (found.is_null() || result.nullable, divides && !result.nullable) {
        (true, true) => Ok(ScalarValue::Float64(Some(f64::NAN))),
        (true, false) => default_of(&data_type(result), result.nullable),
        (false, _) => Ok(found),
    }
}

/// ClickHouse's default of a type, for what is not there; null if it may be null.
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
            let one = StructArray::try_new_with_length(fields.clone(), members, None, 1)?;
            ScalarValue::Struct(Arc::new(one))
        }
        ty => ScalarValue::new_default(ty)?,
    })
}

/// In its type, with what stands for nothing.
pub(crate) fn finished(array: &ArrayRef, ty: &DataType, empty: &ScalarValue) -> Result<ArrayRef> {
    let array =
        if array.data_type() == ty { array.clone() } else { arrow::compute::cast(array, ty)? };
    if empty.is_null() || array.null_count() == 0 {
        return Ok(array);
    }
    let missing = arrow::compute::is_null(&array)?;
    Ok(arrow::compute::kernels::zip::zip(&missing, &empty.to_scalar()?, &array)?)
}

/// Which rows count: none of their arguments is null, and the filter holds. None if all do.
pub(crate) fn counted(
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

pub(crate) fn only(args: &[ArrayRef], rows: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
    match rows {
        None => Ok(args.to_vec()),
        Some(rows) => args.iter().map(|arg| Ok(filter(arg, rows)?)).collect(),
    }
}

fn arrays_of_none(types: &[DataType]) -> Vec<ArrayRef> {
    types.iter().map(arrow::array::new_empty_array).collect()
}

fn first_count(call: &plan::Aggregate) -> Option<usize> {
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

/// What is left of nothing when bits are taken away.
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
