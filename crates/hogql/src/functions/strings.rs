//! Signatures of string and JSON functions.

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
    function("lengthUTF8", &[String], COUNT).also(&["char_length", "character_length"]),
    function("empty", &[Any], Returns::By(emptiness)).also(&["isEmpty"]),
    function("notEmpty", &[Any], Returns::By(emptiness)).also(&["isNotEmpty"]),
    function("lower", &[String], STRING).also(&["lowerUTF8", "lcase"]),
    function("upper", &[String], STRING).also(&["upperUTF8", "ucase"]),
    function("initcap", &[String], STRING).also(&["initcapUTF8"]),
    // A missing part counts as empty, as in PostHog.
    function("concat", &[Any], STRING).repeats().nulls(Nulls::Custom),
    function("concatWithSeparator", &[ConstString, Any], STRING).repeats().also(&["concat_ws"]),
    function("substring", &[String, Int, Int], STRING).optional(1).also(&[
        "substr",
        "substringUTF8",
        "mid",
    ]),
    function("left", &[String, Int], STRING).also(&["leftUTF8"]),
    function("right", &[String, Int], STRING).also(&["rightUTF8"]),
    function("trim", &[String, String], STRING).optional(1).also(&["btrim", "trimBoth"]),
    function("trimLeft", &[String, String], STRING).optional(1).also(&["ltrim"]),
    function("trimRight", &[String, String], STRING).optional(1).also(&["rtrim"]),
    function("reverse", &[Any], Returns::By(reversed)).also(&["reverseUTF8"]),
    function("repeat", &[String, Int], STRING),
    function("space", &[Int], STRING).means(&["repeat(' ', _1)"]),
    function("leftPad", &[String, Int, String], STRING).optional(1).also(&["lpad", "leftPadUTF8"]),
    function("rightPad", &[String, Int, String], STRING)
        .optional(1)
        .also(&["rpad", "rightPadUTF8"]),
    function("startsWith", &[String, String], UINT8).also(&["startsWithUTF8"]),
    function("endsWith", &[String, String], UINT8).also(&["endsWithUTF8"]),
    function("appendTrailingCharIfAbsent", &[String, String], STRING).means(&[
        "if(isNull(_1) or isNull(_2) or empty(_1) or endsWith(_1, _2), if(isNull(_2), null, _1), concat(_1, _2))",
    ]),
    // Strings are always valid UTF-8.
    function("isValidUTF8", &[String], UINT8).means(&["if(_1 is null, null, 1)"]),
    function("toValidUTF8", &[String], STRING).means(&["toString(_1)"]),
    function("firstLine", &[String], STRING).means(&["extract(_1, '^[^\\r\\n]*')"]),
    function("encodeXMLComponent", &[String], STRING),
    function("decodeXMLComponent", &[String], STRING),
    function("arrayStringConcat", &[Array, String], STRING).optional(1),
    function("format", &[ConstString, Any], STRING).repeats(),
    function("base64Encode", &[String], STRING),
    function("base64Decode", &[String], STRING),
    function("tryBase64Decode", &[String], STRING),
    function("ascii", &[String], Returns::Kind(Fixed::Int32)),
];

const PATH: &[Arg] = &[String, ConstString];

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
    // The last argument names the type of the values, which the resolver parses.
    function("JSONExtractKeysAndValues", &[String, Key], Returns::By(keys_and_values))
        .repeats()
        .nulls(Nulls::Custom),
    // A path of SQL/JSON: `$.a[0]["b"]`, with `[*]` and `[0 to 2]` for several values.
    function("JSON_VALUE", PATH, STRING),
    function("JSON_QUERY", PATH, STRING),
    function("JSON_EXISTS", PATH, UINT8),
    // The last argument names the result type, which the resolver parses.
    function("JSONExtract", &[String, Key], STRING).repeats().nulls(Nulls::Custom),
    function("JSONHas", &[String, Key], UINT8).optional(1).repeats(),
    function("JSONLength", &[String, Key], COUNT).optional(1).repeats(),
    function("JSONType", &[String, Key], STRING).optional(1).repeats(),
    function(
        "JSONArrayLength",
        &[String],
        Returns::By(|_| Some(Type::from(Kind::UInt(64)).or_null(true))),
    )
    .means(&["if(JSONType(_1) = 'Array', JSONLength(_1), null)"]),
    function("isValidJSON", &[String], UINT8),
    // Aggregates that are expressions of others.
    function("json_agg", &[Any], STRING)
        .nulls(Nulls::Custom)
        .means(&["toJSONString(groupArray(_1))"]),
    function("every", &[Any], Returns::Kind(Fixed::Bool))
        .nulls(Nulls::Custom)
        .means(&["toBool(min(_1))"]),
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

/// Reverses a string or an array.
fn reversed(types: &[Type]) -> Option<Type> {
    match types.first()? {
        Type { kind: Kind::Array(_), .. } => types.first().cloned(),
        ty => (ty.kind.is_string() || ty.kind == Kind::Null).then(|| Kind::String.into()),
    }
}

fn keys_and_values(_: &[Type]) -> Option<Type> {
    Some(Type::array(Kind::Tuple(vec![Kind::String.into(), Kind::String.into()]).into()))
}
