//! Signatures of bit functions.

use super::{Arg, Fixed, Function, Returns, function};
use crate::types::{Kind, Type, bits, integer};

use Arg::Int;

const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const TWO: &[Arg] = &[Int, Int];

pub(super) const BITS: &[Function] = &[
    function("bitAnd", TWO, Returns::By(both)),
    function("bitOr", TWO, Returns::By(both)),
    function("bitXor", TWO, Returns::By(both)),
    function("bitNot", &[Int], Returns::By(both)),
    function("bitShiftLeft", TWO, Returns::By(first)),
    function("bitShiftRight", TWO, Returns::By(first)),
    function("bitRotateLeft", TWO, Returns::By(first)),
    function("bitRotateRight", TWO, Returns::By(first)),
    function("bitTest", TWO, UINT8),
    function("bitTestAll", TWO, UINT8).repeats(),
    function("bitTestAny", TWO, UINT8).repeats(),
    function("bitCount", &[Int], UINT8),
    function("bitHammingDistance", TWO, UINT8),
];

/// As wide as the wider, signed if one is.
fn both(types: &[Type]) -> Option<Type> {
    let kinds = types.iter().map(|ty| bits(&ty.kind));
    let (signed, size) =
        kinds.reduce(|(signed_a, a), (signed_b, b)| (signed_a || signed_b, a.max(b)))?;
    Some(integer(signed, size).into())
}

fn first(types: &[Type]) -> Option<Type> {
    match &types.first()?.kind {
        Kind::Null => Some(Kind::Int(64).into()),
        kind => {
            let (signed, size) = bits(kind);
            Some(integer(signed, size).into())
        }
    }
}
