//! Signatures of aggregates and window functions.

use super::{Arg, Fixed, Function, FunctionKind, Nulls, Returns, function, not_null, widest};
use crate::types::{Kind, Type};

use Arg::{Any, Array, Condition, ConstInt, ConstString, Int, Number, Time};

const fn zero_if_empty(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).kind(FunctionKind::Aggregate).nulls(Nulls::SkipToZero)
}

const fn default_if_empty(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).kind(FunctionKind::Aggregate).nulls(Nulls::Skip)
}

const fn window(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).kind(FunctionKind::Window).nulls(Nulls::Custom)
}

const COUNT: Returns = Returns::Kind(Fixed::UInt64);
const FLOAT: Returns = Returns::Kind(Fixed::Float);
/// An array whose elements are not nullable, since the aggregate skips nulls.
const ARRAY: Returns = Returns::By(|types| Some(Type::array(not_null(types.first()?.clone()))));

pub(super) const AGGREGATES: &[Function] = &[
    zero_if_empty("count", &[Any], COUNT).optional(1).repeats(),
    default_if_empty("sum", &[Number], Returns::By(widest)).also(&["sumWithOverflow"]),
    default_if_empty("avg", &[Number], FLOAT),
    default_if_empty("min", &[Any], Returns::Arg(0)),
    default_if_empty("max", &[Any], Returns::Arg(0)),
    default_if_empty("any", &[Any], Returns::Arg(0)).also(&["any_value"]),
    default_if_empty("anyLast", &[Any], Returns::Arg(0)),
    default_if_empty("anyHeavy", &[Any], Returns::Arg(0)),
    // Exact, also where ClickHouse estimates.
    zero_if_empty("uniq", &[Any], COUNT).repeats().also(&[
        "uniqHLL12",
        "uniqTheta",
        "uniqCombined",
        "uniqCombined64",
        "approx_distinct",
    ]),
    zero_if_empty("uniqExact", &[Any], COUNT).repeats().also(&["countDistinct"]),
    default_if_empty("argMin", &[Any, Any], Returns::Arg(0)),
    default_if_empty("argMax", &[Any, Any], Returns::Arg(0)),
    default_if_empty("groupArray", &[Any], ARRAY).parameters(0, 1).also(&["array_agg"]),
    default_if_empty("groupUniqArray", &[Any], ARRAY).parameters(0, 1),
    // Exact and interpolated, also where ClickHouse estimates.
    default_if_empty("median", &[Number], FLOAT).also(&[
        "medianTDigest",
        "medianTiming",
        "medianBFloat16",
        "medianDeterministic",
    ]),
    default_if_empty("medianExact", &[Number], Returns::Arg(0)).also(&["medianExactHigh"]),
    default_if_empty("medianExactLow", &[Number], Returns::Arg(0)),
    default_if_empty("quantile", &[Number], FLOAT).parameters(0, 1).also(&[
        "quantileTDigest",
        "quantileTiming",
        "quantileBFloat16",
        "quantileDeterministic",
    ]),
    default_if_empty("quantileExact", &[Number], Returns::Arg(0)).parameters(0, 1),
    default_if_empty("quantileExactLow", &[Number], Returns::Arg(0)).parameters(0, 1),
    default_if_empty("quantileExactHigh", &[Number], Returns::Arg(0)).parameters(0, 1),
    default_if_empty("quantiles", &[Number], Returns::Kind(Fixed::Floats)).parameters(1, 64),
    default_if_empty("stddevPop", &[Number], FLOAT),
    default_if_empty("stddevSamp", &[Number], FLOAT),
    default_if_empty("varPop", &[Number], FLOAT),
    default_if_empty("varSamp", &[Number], FLOAT),
    default_if_empty("corr", &[Number, Number], FLOAT),
    default_if_empty("covarPop", &[Number, Number], FLOAT),
    default_if_empty("covarSamp", &[Number, Number], FLOAT),
    default_if_empty("skewPop", &[Number], FLOAT),
    default_if_empty("skewSamp", &[Number], FLOAT),
    default_if_empty("kurtPop", &[Number], FLOAT),
    default_if_empty("kurtSamp", &[Number], FLOAT),
    default_if_empty("avgWeighted", &[Number, Number], FLOAT),
    default_if_empty("deltaSum", &[Number], Returns::By(widest)),
    default_if_empty("groupArrayLast", &[Any], ARRAY).parameters(1, 1),
    default_if_empty("groupArraySorted", &[Any], ARRAY).parameters(1, 1),
    default_if_empty("topK", &[Any], ARRAY).parameters(1, 1),
    // Of a map, of a pair of arrays, or of two arrays, which the resolver makes a pair.
    default_if_empty("sumMap", &[Any, Any], Returns::By(sum_map)).optional(1),
    default_if_empty("groupBitOr", &[Int], Returns::Arg(0)),
    default_if_empty("groupBitAnd", &[Int], Returns::Arg(0)),
    default_if_empty("groupBitXor", &[Int], Returns::Arg(0)),
    zero_if_empty("groupBitmap", &[Int], COUNT),
    default_if_empty("groupBitmapState", &[Int], ARRAY),
    // Of bitmaps, which are arrays.
    zero_if_empty("groupBitmapAnd", &[Array], COUNT),
    zero_if_empty("groupBitmapOr", &[Array], COUNT).also(&["groupBitmapMerge"]),
    zero_if_empty("groupBitmapXor", &[Array], COUNT),
    default_if_empty("groupBitmapAndState", &[Array], Returns::Arg(0)),
    default_if_empty("groupBitmapOrState", &[Array], Returns::Arg(0))
        .also(&["groupBitmapMergeState"]),
    default_if_empty("groupBitmapXorState", &[Array], Returns::Arg(0)),
    // The sum or the average of so many rows up to each; of all before it without a number.
    default_if_empty("groupArrayMovingSum", &[Number], Returns::By(sums)).parameters(0, 1),
    default_if_empty("groupArrayMovingAvg", &[Number], Returns::Kind(Fixed::Floats))
        .parameters(0, 1),
    // The most intervals, from one number or time to another, that overlap, and where they begin to.
    zero_if_empty("maxIntersections", &[Any, Any], COUNT),
    default_if_empty("maxIntersectionsPosition", &[Any, Any], Returns::Arg(0)),
    default_if_empty("simpleLinearRegression", &[Number, Number], Returns::By(line)),
    default_if_empty("string_agg", &[Any, ConstString], Returns::Kind(Fixed::String)),
    default_if_empty("windowFunnel", &[Time, Condition], Returns::Kind(Fixed::UInt8))
        .parameters(1, 1 + FUNNEL_MODES.len())
        .repeats(),
];

/// What a `windowFunnel` may take after the seconds of its window.
pub(crate) const FUNNEL_MODES: &[&str] = &["strict_order", "strict_increase"];

pub(super) const WINDOWS: &[Function] = &[
    window("row_number", &[], COUNT),
    window("rank", &[], COUNT),
    window("dense_rank", &[], COUNT),
    window("percent_rank", &[], FLOAT).also(&["percentRank"]),
    window("cume_dist", &[], FLOAT),
    window("ntile", &[ConstInt], COUNT),
    window("lag", &[Any, ConstInt, Any], Returns::By(neighbor)).optional(2),
    window("lead", &[Any, ConstInt, Any], Returns::By(neighbor)).optional(2),
    window("lagInFrame", &[Any, ConstInt, Any], Returns::By(in_frame)).optional(2),
    window("leadInFrame", &[Any, ConstInt, Any], Returns::By(in_frame)).optional(2),
    window("first_value", &[Any], Returns::Arg(0)),
    window("last_value", &[Any], Returns::Arg(0)),
    window("nth_value", &[Any, ConstInt], Returns::Arg(0)),
];

fn sums(types: &[Type]) -> Option<Type> {
    Some(Type::array(widest(types)?))
}

/// Slope and intercept.
fn line(_: &[Type]) -> Option<Type> {
    Some(Kind::Tuple(vec![Kind::Float.into(), Kind::Float.into()]).into())
}

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

/// `lag` and `lead`: null outside the partition unless a default is given; PostHog makes the value
/// nullable.
fn neighbor(types: &[Type]) -> Option<Type> {
    match types {
        [one, _, default] => one.common(default),
        [one, ..] => Some(one.clone().or_null(true)),
        [] => None,
    }
}

/// The type's default outside the frame, unless the call gives one.
fn in_frame(types: &[Type]) -> Option<Type> {
    match types {
        [one, _, default] => one.common(default),
        [one, ..] => Some(one.clone()),
        [] => None,
    }
}
