//! Signatures of string, JSON and URL functions.

use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::types::{Kind, Type};

use Arg::{Any, Array, ConstString, Int, Key, String};

const STRING: Returns = Returns::Kind(Fixed::String);
const STRING_ARRAY: Returns = Returns::Kind(Fixed::Strings);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const COUNT: Returns = Returns::Kind(Fixed::UInt64);

pub(super) const STRINGS: &[Function] = &[
    // Accepts an array as well.
    function("length", &[Any], Returns::By(length)),
    function("lengthUTF8", &[String], COUNT),
    function("empty", &[Any], Returns::By(emptiness)),
    function("notEmpty", &[Any], Returns::By(emptiness)),
    function("lower", &[String], STRING),
    function("upper", &[String], STRING),
    function("concat", &[Any], STRING).repeats(),
    function("substring", &[String, Int, Int], STRING).optional(1).also(&["substr"]),
    function("left", &[String, Int], STRING),
    function("right", &[String, Int], STRING),
    function("trim", &[String], STRING),
    function("trimLeft", &[String], STRING),
    function("trimRight", &[String], STRING),
    function("reverse", &[String], STRING),
    function("repeat", &[String, Int], STRING),
    function("leftPad", &[String, Int, String], STRING).optional(1),
    function("rightPad", &[String, Int, String], STRING).optional(1),
    function("startsWith", &[String, String], UINT8),
    function("endsWith", &[String, String], UINT8),
    function("position", &[String, String], COUNT),
    function("positionCaseInsensitive", &[String, String], COUNT),
    function("like", &[String, String], UINT8),
    function("ilike", &[String, String], UINT8),
    function("notLike", &[String, String], UINT8),
    function("match", &[String, String], UINT8),
    function("extract", &[String, String], STRING),
    function("extractAll", &[String, String], STRING_ARRAY),
    function("replaceOne", &[String, String, String], STRING),
    function("replaceAll", &[String, String, String], STRING).also(&["replace"]),
    function("replaceRegexpOne", &[String, String, String], STRING),
    function("replaceRegexpAll", &[String, String, String], STRING),
    function("splitByChar", &[String, String], STRING_ARRAY),
    function("splitByString", &[String, String], STRING_ARRAY),
    function("splitByRegexp", &[String, String], STRING_ARRAY),
    function("arrayStringConcat", &[Array, String], STRING).optional(1),
    function("format", &[ConstString, Any], STRING).repeats(),
    function("base64Encode", &[String], STRING),
    function("base64Decode", &[String], STRING),
    function("tryBase64Decode", &[String], STRING),
    function("multiSearchAny", &[String, Array], UINT8),
    function("multiSearchAnyCaseInsensitive", &[String, Array], UINT8),
    function("countSubstrings", &[String, String], COUNT),
    function("ascii", &[String], Returns::Kind(Fixed::Int32)),
];

/// A missing value becomes the type's default, so that only a null string returns null.
pub(super) const JSON: &[Function] = &[
    function("JSONExtractString", &[String, Key], STRING).optional(1).repeats(),
    function("JSONExtractInt", &[String, Key], Returns::Kind(Fixed::Int64)).optional(1).repeats(),
    function("JSONExtractUInt", &[String, Key], COUNT).optional(1).repeats(),
    function("JSONExtractFloat", &[String, Key], Returns::Kind(Fixed::Float)).optional(1).repeats(),
    function("JSONExtractBool", &[String, Key], Returns::Kind(Fixed::Bool)).optional(1).repeats(),
    function("JSONExtractRaw", &[String, Key], STRING).optional(1).repeats(),
    function("JSONExtractArrayRaw", &[String, Key], STRING_ARRAY).optional(1).repeats(),
    function("JSONExtractKeys", &[String, Key], STRING_ARRAY).optional(1).repeats(),
    function("JSONExtractKeysAndValuesRaw", &[String, Key], Returns::By(keys_and_values))
        .optional(1)
        .repeats(),
    // The last argument names the result type, which the resolver parses.
    function("JSONExtract", &[String, Key], STRING).repeats().nulls(Nulls::Custom),
    function("JSONHas", &[String, Key], UINT8).optional(1).repeats(),
    function("JSONLength", &[String, Key], COUNT).optional(1).repeats(),
    function("JSONType", &[String, Key], STRING).optional(1).repeats(),
    function("isValidJSON", &[String], UINT8),
];

pub(super) const URLS: &[Function] = &[
    function("protocol", &[String], STRING),
    function("domain", &[String], STRING),
    function("domainWithoutWWW", &[String], STRING),
    function("topLevelDomain", &[String], STRING),
    function("path", &[String], STRING),
    function("pathFull", &[String], STRING),
    function("queryString", &[String], STRING),
    function("fragment", &[String], STRING),
    function("extractURLParameter", &[String, String], STRING),
    function("cutQueryString", &[String], STRING),
    function("cutQueryStringAndFragment", &[String], STRING),
    function("decodeURLComponent", &[String], STRING),
    function("encodeURLComponent", &[String], STRING),
];

fn has_length(one: &Type) -> bool {
    one.kind.is_string() || matches!(one.kind, Kind::Array(_) | Kind::Map(_) | Kind::Null)
}

fn length(types: &[Type]) -> Option<Type> {
    types.first().is_some_and(has_length).then(|| Kind::UInt(64).into())
}

fn emptiness(types: &[Type]) -> Option<Type> {
    types.first().is_some_and(has_length).then(|| Kind::UInt(8).into())
}

fn keys_and_values(_: &[Type]) -> Option<Type> {
    Some(Type::array(Kind::Tuple(vec![Kind::String.into(), Kind::String.into()]).into()))
}
