//! Signatures of tuple and map functions.

use super::{Arg, Fixed, Function, Lambda, Nulls, Returns, common, function};
use crate::types::{Kind, Type};

use Arg::{Any, Array, ConstInt, Map, Tuple};

const UINT8: Returns = Returns::Kind(Fixed::UInt8);

pub(super) const MAPS: &[Function] = &[
    function("tuple", &[Any], Returns::By(tuple)).optional(1).repeats().nulls(Nulls::Custom),
    // The resolver computes the type of the selected element.
    function("tupleElement", &[Tuple, ConstInt], Returns::Arg(0)).nulls(Nulls::Custom),
    function("map", &[Any], Returns::By(map)).optional(1).repeats().nulls(Nulls::Custom),
    function("mapFromArrays", &[Array, Array], Returns::By(map_from_arrays)),
    function("mapKeys", &[Map], Returns::By(|types| Some(Type::array(pair(types)?.0.clone())))),
    function("mapValues", &[Map], Returns::By(|types| Some(Type::array(pair(types)?.1.clone())))),
    function("mapContains", &[Map, Any], UINT8)
        .nulls(Nulls::Custom)
        .also(&["mapContainsKey"])
        .means(&["has(mapKeys(_1), _2)"]),
    function("mapContainsValue", &[Map, Any], UINT8)
        .nulls(Nulls::Custom)
        .means(&["has(mapValues(_1), _2)"]),
    function("mapContainsKeyLike", &[Map, Arg::String], UINT8)
        .nulls(Nulls::Custom)
        .means(&["arrayExists(_key -> _key like _2, mapKeys(_1))"]),
    function("mapExtractKeyLike", &[Map, Arg::String], Returns::Arg(0))
        .nulls(Nulls::Custom)
        .means(&["mapFromArrays(arrayFilter(_key -> _key like _2, mapKeys(_1)), \
         arrayFilter((_value, _key) -> _key like _2, mapValues(_1), mapKeys(_1)))"]),
    function("mapUpdate", &[Map, Map], Returns::Common(0)),
    // Lambdas take a key and a value.
    function("mapFilter", &[Map], Returns::Arg(1)).lambda(Lambda::Required).nulls(Nulls::Custom),
    function("mapApply", &[Map], Returns::By(applied))
        .lambda(Lambda::Required)
        .nulls(Nulls::Custom),
];

fn tuple(types: &[Type]) -> Option<Type> {
    Some(Kind::Tuple(types.to_vec()).into())
}

fn map(types: &[Type]) -> Option<Type> {
    if !types.len().is_multiple_of(2) {
        return None;
    }
    if types.is_empty() {
        let nothing = Type { kind: Kind::Null, nullable: false };
        return Some(Kind::Map(Box::new((nothing.clone(), nothing))).into());
    }
    let keys: Vec<Type> = types.iter().step_by(2).cloned().collect();
    let values: Vec<Type> = types.iter().skip(1).step_by(2).cloned().collect();
    Some(Kind::Map(Box::new((common(&keys)?, common(&values)?))).into())
}

pub(super) fn pair(types: &[Type]) -> Option<&(Type, Type)> {
    match &types.first()?.kind {
        Kind::Map(pair) => Some(pair),
        _ => None,
    }
}

fn map_from_arrays(types: &[Type]) -> Option<Type> {
    let [keys, values] = types else { return None };
    let pair = (keys.element()?.clone(), values.element()?.clone());
    Some(Kind::Map(Box::new(pair)).into())
}

fn applied(types: &[Type]) -> Option<Type> {
    match &types.first()?.kind {
        Kind::Tuple(items) => match &items[..] {
            [key, value] => Some(Kind::Map(Box::new((key.clone(), value.clone()))).into()),
            _ => None,
        },
        _ => None,
    }
}
