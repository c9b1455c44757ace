//! Signatures of mathematical and geographical functions.

use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::types::{Kind, Type};

use Arg::{Any, Array, Int, Number};

const FLOAT: Returns = Returns::Kind(Fixed::Float);
const STRING: Returns = Returns::Kind(Fixed::String);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const UINT64: Returns = Returns::Kind(Fixed::UInt64);

const fn of_float(name: &'static str) -> Function {
    function(name, &[Number], FLOAT)
}

const FOUR: &[Arg] = &[Number, Number, Number, Number];
const VECTORS: &[Arg] = &[Any, Any];

pub(super) const MATH: &[Function] = &[
    of_float("exp2"),
    of_float("exp10"),
    of_float("cbrt"),
    of_float("sin"),
    of_float("cos"),
    of_float("tan"),
    of_float("asin"),
    of_float("acos"),
    of_float("atan"),
    of_float("sinh"),
    of_float("cosh"),
    of_float("tanh"),
    of_float("asinh"),
    of_float("acosh"),
    of_float("atanh"),
    of_float("log1p"),
    of_float("degrees"),
    of_float("radians"),
    function("atan2", &[Number, Number], FLOAT),
    function("hypot", &[Number, Number], FLOAT),
    function("sigmoid", &[Number], FLOAT).means(&["1 / (1 + exp(-_1))"]),
    function("intExp2", &[Number], UINT64),
    function("intExp10", &[Number], UINT64),
    function("factorial", &[Int], UINT64),
    // A number for each row. The resolver adds the columns that tell rows apart.
    function("rand", &[Any], Returns::Kind(Fixed::UInt32))
        .optional(1)
        .nulls(Nulls::Custom)
        .also(&["rand32"]),
    function("rand64", &[Any], UINT64).optional(1).nulls(Nulls::Custom),
    function("rowNumberInAllBlocks", &[], UINT64)
        .also(&["rowNumberInBlock"])
        .means(&["toUInt64(row_number() over () - 1)"]),
    function("width_bucket", FOUR, UINT64).also(&["widthBucket"]),
    function(
        "roundToExp2",
        &[Number],
        Returns::By(|types| {
            types.first().filter(|ty| !matches!(ty.kind, Kind::Decimal(_))).cloned()
        }),
    ),
    function("roundDuration", &[Number], Returns::Kind(Fixed::UInt16)),
    // Floats are rounded half to even anyway.
    function("roundBankers", &[Number, Int], FLOAT)
        .optional(1)
        .means(&["round(toFloat64(_1))", "round(toFloat64(_1), _2)"]),
    function("roundAge", &[Number], UINT8),
    function("roundDown", &[Number, Array], FLOAT).nulls(Nulls::Custom).means(&[
        "if(isNull(_1), null, arrayMax(_step -> if(_step <= _1, _step, arrayMin(_2)), _2))",
    ]),
    function("bar", FOUR, STRING),
    function("formatReadableSize", &[Number], STRING).also(&["FORMAT_BYTES"]),
    function("formatReadableDecimalSize", &[Number], STRING),
    function("formatReadableQuantity", &[Number], STRING),
    function("formatReadableTimeDelta", &[Number, Arg::ConstString, Arg::ConstString], STRING)
        .optional(2),
    function("greatCircleDistance", FOUR, FLOAT),
    function("geoDistance", FOUR, FLOAT).means(&["greatCircleDistance(_1, _2, _3, _4)"]),
    function("greatCircleAngle", FOUR, FLOAT),
    function("tuplePlus", VECTORS, Returns::By(wide_tuple)).also(&["vectorSum"]),
    function("tupleMinus", VECTORS, Returns::By(wide_tuple)).also(&["vectorDifference"]),
    function("tupleMultiply", VECTORS, Returns::By(wide_tuple)),
    function("tupleDivide", VECTORS, Returns::By(wide_tuple)),
    function("tupleMultiplyByNumber", &[Arg::Tuple, Number], Returns::By(tuple_and_number)),
    function("tupleDivideByNumber", &[Arg::Tuple, Number], Returns::By(tuple_and_number)),
    function("tupleNegate", &[Arg::Tuple], Returns::By(wide_tuple)),
    function("dotProduct", VECTORS, Returns::By(vectors)).also(&["scalarProduct"]),
    function("L1Norm", &[Any], Returns::By(vectors)).also(&["normL1"]),
    function("L2Norm", &[Any], Returns::By(vectors)).also(&["normL2"]),
    function("LinfNorm", &[Any], Returns::By(vectors)).also(&["normLinf"]),
    function("LpNorm", &[Any, Number], Returns::By(vector_and_number)).also(&["normLp"]),
    function("L1Distance", VECTORS, Returns::By(vectors)).also(&["distanceL1"]),
    function("L2Distance", VECTORS, Returns::By(vectors)).also(&["distanceL2"]),
    function("L2SquaredDistance", VECTORS, Returns::By(vectors)),
    function("LinfDistance", VECTORS, Returns::By(vectors)).also(&["distanceLinf"]),
    function("LpDistance", &[Any, Any, Number], Returns::By(vector_and_number))
        .also(&["distanceLp"]),
    function("cosineDistance", VECTORS, Returns::By(vectors)),
    function("L1Normalize", &[Arg::Tuple], Returns::By(float_tuple)).also(&["normalizeL1"]),
    function("L2Normalize", &[Arg::Tuple], Returns::By(float_tuple)).also(&["normalizeL2"]),
    function("LinfNormalize", &[Arg::Tuple], Returns::By(float_tuple)).also(&["normalizeLinf"]),
    function(
        "LpNormalize",
        &[Arg::Tuple, Number],
        Returns::By(|types| float_tuple(types.get(..1)?)),
    )
    .also(&["normalizeLp"]),
    function(
        "tupleHammingDistance",
        &[Arg::Tuple, Arg::Tuple],
        Returns::By(|types| {
            let [Type { kind: Kind::Tuple(a), .. }, Type { kind: Kind::Tuple(b), .. }] = types
            else {
                return None;
            };
            let comparable = a.iter().zip(b).all(|(a, b)| a.common(b).is_some());
            (a.len() == b.len() && comparable).then(|| Kind::UInt(8).into())
        }),
    ),
];

/// The number of elements, if these are all numbers. None for an array, which may have any number.
fn size(ty: &Type) -> Option<Option<usize>> {
    match &ty.kind {
        Kind::Array(element) if element.kind.is_number() => Some(None),
        Kind::Tuple(items) => {
            items.iter().all(|item| item.kind.is_number()).then_some(Some(items.len()))
        }
        _ => None,
    }
}

fn same_size(types: &[Type]) -> Option<Option<usize>> {
    let (first, rest) = types.split_first()?;
    let wanted = size(first)?;
    rest.iter().all(|ty| size(ty) == Some(wanted)).then_some(wanted)
}

fn vectors(types: &[Type]) -> Option<Type> {
    same_size(types).map(|_| Kind::Float.into())
}

fn vector_and_number(types: &[Type]) -> Option<Type> {
    vectors(types.split_last()?.1)
}

/// Tuples of floats; integers have ClickHouse's next wider type, which JSON does not show.
fn wide_tuple(types: &[Type]) -> Option<Type> {
    same_size(types)?;
    float_tuple(types.get(..1)?)
}

fn tuple_and_number(types: &[Type]) -> Option<Type> {
    float_tuple(types.get(..1)?)
}

fn float_tuple(types: &[Type]) -> Option<Type> {
    let items = size(types.first()?)??;
    Some(Kind::Tuple(vec![Kind::Float.into(); items]).into())
}
