//! Signatures of functions on bitmaps. A bitmap is the array of its members in ascending order, so that
//! functions on arrays express nearly all of these.

use super::{Arg, Fixed, Function, Returns, function};

use Arg::{Array, Int};

const COUNT: Returns = Returns::Kind(Fixed::UInt64);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const TWO: &[Arg] = &[Array, Array];

const fn bitmap(
    name: &'static str,
    args: &'static [Arg],
    body: &'static [&'static str],
) -> Function {
    function(name, args, Returns::Arg(0)).means(body)
}

const fn cardinality(name: &'static str, body: &'static [&'static str]) -> Function {
    function(name, TWO, COUNT).means(body)
}

pub(super) const BITMAPS: &[Function] = &[
    bitmap("bitmapBuild", &[Array], &["arraySort(arrayDistinct(_1))"]),
    bitmap("bitmapToArray", &[Array], &["_1"]),
    function("bitmapCardinality", &[Array], COUNT).means(&["length(_1)"]),
    function("bitmapContains", &[Array, Int], UINT8).means(&["has(_1, _2)"]),
    function("bitmapHasAny", TWO, UINT8).means(&["hasAny(_1, _2)"]),
    function("bitmapHasAll", TWO, UINT8).means(&["hasAll(_1, _2)"]),
    function("bitmapMin", &[Array], Returns::Element(0)).means(&["arrayMin(_1)"]),
    function("bitmapMax", &[Array], Returns::Element(0)).means(&["arrayMax(_1)"]),
    bitmap("bitmapAnd", TWO, &["arraySort(arrayIntersect(_1, _2))"]),
    bitmap("bitmapOr", TWO, &["arraySort(arrayDistinct(arrayConcat(_1, _2)))"]),
    bitmap("bitmapXor", TWO, &["arraySort(arrayConcat(arrayExcept(_1, _2), arrayExcept(_2, _1)))"]),
    bitmap("bitmapAndnot", TWO, &["arrayExcept(_1, _2)"]),
    cardinality("bitmapAndCardinality", &["length(arrayIntersect(_1, _2))"]),
    cardinality("bitmapOrCardinality", &["length(arrayDistinct(arrayConcat(_1, _2)))"]),
    cardinality(
        "bitmapXorCardinality",
        &["length(arrayExcept(_1, _2)) + length(arrayExcept(_2, _1))"],
    ),
    cardinality("bitmapAndnotCardinality", &["length(arrayExcept(_1, _2))"]),
    bitmap(
        "bitmapSubsetInRange",
        &[Array, Int, Int],
        &["arrayFilter(_member -> _member >= _2 and _member < _3, _1)"],
    ),
    bitmap(
        "bitmapSubsetLimit",
        &[Array, Int, Int],
        &["arraySlice(arrayFilter(_member -> _member >= _2, _1), 1, _3)"],
    ),
    bitmap("subBitmap", &[Array, Int, Int], &["arraySlice(_1, _2 + 1, _3)"]),
    bitmap(
        "bitmapTransform",
        &[Array, Array, Array],
        &["arraySort(arrayDistinct(arrayMap(_member -> transform(_member, _2, _3), _1)))"],
    ),
];
