//! Signatures of array functions.

use super::{Arg, Fixed, Function, Lambda, Nulls, Returns, common, function, not_null, widest};
use crate::types::{Kind, Type, bits, integer};

use Arg::{Any, Array, ConstString, Int};

const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const SIZE: Returns = Returns::Kind(Fixed::UInt32);
/// Index 1 is the first array: index 0 is the type of the lambda's result.
const FIRST_ARRAY: Returns = Returns::Arg(1);
const FIRST_ELEMENT: Returns = Returns::Element(1);

/// A higher-order function: a lambda, then arrays of equal length.
const fn higher_order(name: &'static str, lambda: Lambda, returns: Returns) -> Function {
    function(name, &[Array], returns).repeats().lambda(lambda).nulls(Nulls::Custom)
}

const fn same_array(name: &'static str, args: &'static [Arg]) -> Function {
    function(name, args, Returns::Arg(0))
}

pub(super) const ARRAYS: &[Function] = &[
    function("array", &[Any], Returns::By(array)).optional(1).repeats().nulls(Nulls::Custom),
    // One row per element: the resolver turns it into a plan's `Unnest`.
    function("arrayJoin", &[Array], Returns::Element(0)).nulls(Nulls::Custom),
    function("has", &[Array, Any], Returns::By(has)).nulls(Nulls::Custom),
    function("hasAny", &[Array, Array], Returns::By(searched_in_elements)),
    function("hasAll", &[Array, Array], Returns::By(searched_in_elements)),
    function("indexOf", &[Array, Any], Returns::By(index_of)).nulls(Nulls::Custom),
    higher_order("arrayMap", Lambda::Required, Returns::ArrayOf(0)),
    higher_order("arrayFilter", Lambda::Required, FIRST_ARRAY),
    higher_order("arrayExists", Lambda::Optional, UINT8),
    higher_order("arrayAll", Lambda::Optional, UINT8),
    higher_order("arrayFirst", Lambda::Required, FIRST_ELEMENT),
    higher_order("arrayLast", Lambda::Required, FIRST_ELEMENT),
    higher_order("arrayFirstIndex", Lambda::Required, SIZE),
    higher_order("arrayLastIndex", Lambda::Required, SIZE),
    higher_order("arrayFill", Lambda::Required, FIRST_ARRAY),
    higher_order("arrayReverseFill", Lambda::Required, FIRST_ARRAY),
    higher_order("arraySplit", Lambda::Required, Returns::ArrayOf(1)),
    higher_order("arrayReverseSplit", Lambda::Required, Returns::ArrayOf(1)),
    higher_order(
        "arrayProduct",
        Lambda::Optional,
        Returns::By(|types| widest(types).map(|_| Kind::Float.into())),
    ),
    higher_order("arrayCount", Lambda::Optional, SIZE),
    higher_order("arraySum", Lambda::Optional, Returns::By(widest)),
    higher_order("arrayAvg", Lambda::Optional, Returns::Kind(Fixed::Float)),
    higher_order("arrayMin", Lambda::Optional, Returns::Arg(0)),
    higher_order("arrayMax", Lambda::Optional, Returns::Arg(0)),
    // The lambda takes the accumulated value first, then the elements; the last argument starts it.
    function("arrayFold", &[Array, Any], Returns::Arg(0))
        .repeats()
        .lambda(Lambda::Required)
        .nulls(Nulls::Custom),
    // The first argument names an aggregate; the resolver finds the function on arrays.
    function("arrayReduce", &[ConstString, Array], Returns::Arg(0)).nulls(Nulls::Custom),
    higher_order("arraySort", Lambda::Optional, FIRST_ARRAY),
    higher_order("arrayReverseSort", Lambda::Optional, FIRST_ARRAY),
    function("countEqual", &[Array, Any], Returns::By(index_of)).nulls(Nulls::Custom),
    function("hasSubstr", &[Array, Array], Returns::By(searched_in_elements)),
    function("arrayEnumerateDense", &[Array], Returns::By(positions)),
    function("arrayEnumerateUniq", &[Array], Returns::By(positions)),
    function("arrayResize", &[Array, Int, Any], Returns::By(resized))
        .optional(1)
        .nulls(Nulls::Custom),
    function(
        "arrayWithConstant",
        &[Int, Any],
        Returns::By(|types| Some(Type::array(types.get(1)?.clone()))),
    )
    .nulls(Nulls::Custom),
    same_array("arrayRotateLeft", &[Array, Int]),
    same_array("arrayRotateRight", &[Array, Int]),
    same_array("arrayReverse", &[Array]),
    same_array("arrayDistinct", &[Array]),
    function("arrayUniq", &[Array], SIZE).repeats(),
    function("arrayConcat", &[Array], Returns::Common(0)).repeats(),
    same_array("arraySlice", &[Array, Int, Int]).optional(1),
    function("arrayPushBack", &[Array, Any], Returns::By(push)).nulls(Nulls::Custom),
    function("arrayPushFront", &[Array, Any], Returns::By(push)).nulls(Nulls::Custom),
    same_array("arrayPopBack", &[Array]),
    same_array("arrayPopFront", &[Array]),
    function("arrayElement", &[Any, Any], Returns::By(element)).nulls(Nulls::Custom),
    function("arrayEnumerate", &[Array], Returns::By(positions)),
    function("arrayZip", &[Array], Returns::By(zip)).repeats(),
    function("arrayFlatten", &[Array], Returns::By(flatten)),
    function("arrayDifference", &[Array], Returns::By(differences)),
    higher_order(
        "arrayCumSumNonNegative",
        Lambda::Optional,
        Returns::By(|types| Some(Type::array(widest(types)?))),
    ),
    higher_order(
        "arrayCumSum",
        Lambda::Optional,
        Returns::By(|types| Some(Type::array(widest(types)?))),
    ),
    function("arrayIntersect", &[Array], Returns::Common(0)).repeats(),
    same_array("arrayCompact", &[Array]),
    same_array("arrayExcept", &[Array, Array]),
    function("range", &[Int, Int, Int], Returns::By(range)).optional(2),
];

fn array(types: &[Type]) -> Option<Type> {
    if types.is_empty() {
        return Some(Type::array(Type { kind: Kind::Null, nullable: false }));
    }
    common(types).map(Type::array)
}

/// The searched value must have a common type with the elements.
fn has(types: &[Type]) -> Option<Type> {
    push(types).map(|_| Kind::UInt(8).into())
}

fn index_of(types: &[Type]) -> Option<Type> {
    push(types).map(|_| Kind::UInt(64).into())
}

fn positions(_: &[Type]) -> Option<Type> {
    Some(Type::array(Kind::UInt(32).into()))
}

fn resized(types: &[Type]) -> Option<Type> {
    match types {
        [array, _, extender] => push(&[array.clone(), extender.clone()]),
        [array, _] => Some(array.clone()),
        _ => None,
    }
}

fn searched_in_elements(types: &[Type]) -> Option<Type> {
    common(types).map(|_| Kind::UInt(8).into())
}

fn push(types: &[Type]) -> Option<Type> {
    Some(Type::array(types.first()?.element()?.common(types.get(1)?)?))
}

/// The element type of an array (by index) or of a map (by key).
fn element(types: &[Type]) -> Option<Type> {
    let [from, by] = types else { return None };
    match &from.kind {
        Kind::Array(element) if by.kind.is_integer() => {
            Some((**element).clone().or_null(by.nullable))
        }
        Kind::Map(pair) => pair.0.common(by).map(|_| pair.1.clone()),
        _ => None,
    }
}

fn zip(types: &[Type]) -> Option<Type> {
    let items: Option<Vec<Type>> = types.iter().map(|one| one.element().cloned()).collect();
    Some(Type::array(Kind::Tuple(items?).into()))
}

fn flatten(types: &[Type]) -> Option<Type> {
    let mut inner = types.first()?.element()?;
    while let Some(deeper) = inner.element() {
        inner = deeper;
    }
    Some(Type::array(inner.clone()))
}

fn differences(types: &[Type]) -> Option<Type> {
    let element = types.first()?.element()?;
    let kind = match &element.kind {
        kind if kind.is_integer() => integer(true, bits(kind).1.saturating_mul(2)),
        Kind::Float | Kind::Decimal(_) => Kind::Float,
        _ => return None,
    };
    Some(Type::array(kind.into()))
}

fn range(types: &[Type]) -> Option<Type> {
    Some(Type::array(not_null(common(types)?)))
}
