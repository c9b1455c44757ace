//! Aggregates and window functions.

use super::{Arg, Fixed, Function, Nulls, Returns, Role, function, not_null, widest};
use crate::types::{Kind, Type};

use Arg::{Any, Condition, ConstInt, ConstText, Int, Number, Time};

const fn to_zero(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).role(Role::Aggregate).nulls(Nulls::SkipToZero)
}

const fn to_null(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).role(Role::Aggregate).nulls(Nulls::SkipToNull)
}

const fn window(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).role(Role::Window).nulls(Nulls::Own)
}

const COUNT: Returns = Returns::Kind(Fixed::UInt64);
const FLOAT: Returns = Returns::Kind(Fixed::Float);
/// Nulls are skipped, so none is among the elements.
const ARRAY: Returns = Returns::By(|types| Some(Type::array(not_null(types.first()?.clone()))));

pub(super) const AGGREGATES: &[Function] = &[
    to_zero("count", &[Any], COUNT).optional(1).repeats(),
    to_zero("sum", &[Number], Returns::By(widest)),
    to_null("avg", &[Number], FLOAT),
    to_null("min", &[Any], Returns::Arg(0)),
    to_null("max", &[Any], Returns::Arg(0)),
    to_null("any", &[Any], Returns::Arg(0)),
    to_null("anyLast", &[Any], Returns::Arg(0)),
    to_zero("uniq", &[Any], COUNT).repeats(),
    to_zero("uniqExact", &[Any], COUNT).repeats().also(&["countDistinct"]),
    to_null("argMin", &[Any, Any], Returns::Arg(0)),
    to_null("argMax", &[Any, Any], Returns::Arg(0)),
    to_zero("groupArray", &[Any], ARRAY).parameters(0, 1).also(&["array_agg"]),
    to_zero("groupUniqArray", &[Any], ARRAY).parameters(0, 1),
    to_null("median", &[Number], FLOAT),
    to_null("quantile", &[Number], FLOAT).parameters(1, 1),
    to_zero("quantiles", &[Number], Returns::Kind(Fixed::Floats)).parameters(1, 64),
    to_null("stddevPop", &[Number], FLOAT),
    to_null("stddevSamp", &[Number], FLOAT),
    to_null("varPop", &[Number], FLOAT),
    to_null("varSamp", &[Number], FLOAT),
    to_null("corr", &[Number, Number], FLOAT),
    to_zero("topK", &[Any], ARRAY).parameters(1, 1),
    to_zero("sumMap", &[Any], Returns::By(sum_map)),
    to_zero("groupBitOr", &[Int], Returns::Arg(0)),
    to_zero("groupBitAnd", &[Int], Returns::Arg(0)),
    to_zero("groupBitXor", &[Int], Returns::Arg(0)),
    to_null("string_agg", &[Any, ConstText], Returns::Kind(Fixed::Text)),
    to_zero("windowFunnel", &[Time, Condition], Returns::Kind(Fixed::UInt8))
        .parameters(1, 1)
        .repeats(),
];

pub(super) const WINDOWS: &[Function] = &[
    window("row_number", &[], COUNT),
    window("rank", &[], COUNT),
    window("dense_rank", &[], COUNT),
    window("lag", &[Any, ConstInt, Any], Returns::By(neighbour)).optional(2).also(&["lagInFrame"]),
    window("lead", &[Any, ConstInt, Any], Returns::By(neighbour))
        .optional(2)
        .also(&["leadInFrame"]),
    window("first_value", &[Any], Returns::By(maybe)),
    window("last_value", &[Any], Returns::By(maybe)),
    window("nth_value", &[Any, ConstInt], Returns::By(maybe)),
];

fn sum_map(types: &[Type]) -> Option<Type> {
    let sum = |value: &Type| widest(std::slice::from_ref(value));
    match &types.first()?.kind {
        Kind::Map(pair) => {
            let (keys, values) = &**pair;
            Some(Kind::Map(Box::new((keys.clone(), sum(values)?))).into())
        }
        Kind::Tuple(items) => match &items[..] {
            [keys, values] if keys.element().is_some() => {
                let sums = Type::array(sum(values.element()?)?);
                Some(Kind::Tuple(vec![keys.clone(), sums]).into())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Null beyond the first and the last row, unless a default is given.
fn neighbour(types: &[Type]) -> Option<Type> {
    match types {
        [one, _, default] => one.common(default),
        [one, ..] => Some(one.clone().or_null(true)),
        [] => None,
    }
}

fn maybe(types: &[Type]) -> Option<Type> {
    Some(types.first()?.clone().or_null(true))
}
