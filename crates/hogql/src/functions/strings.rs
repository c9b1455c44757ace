//! Texts, JSON and URLs.

use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::types::{Kind, Type};

use Arg::{Any, Array, ConstText, Int, Key, Text};

const TEXT: Returns = Returns::Kind(Fixed::Text);
const TEXTS: Returns = Returns::Kind(Fixed::Texts);
const YES_NO: Returns = Returns::Kind(Fixed::UInt8);
const COUNT: Returns = Returns::Kind(Fixed::UInt64);

pub(super) const STRINGS: &[Function] = &[
    // Of an array too.
    function("length", &[Any], Returns::By(length)),
    function("lengthUTF8", &[Text], COUNT),
    function("empty", &[Any], Returns::By(emptiness)),
    function("notEmpty", &[Any], Returns::By(emptiness)),
    function("lower", &[Text], TEXT),
    function("upper", &[Text], TEXT),
    function("concat", &[Any], TEXT).repeats(),
    function("substring", &[Text, Int, Int], TEXT).optional(1).also(&["substr"]),
    function("left", &[Text, Int], TEXT),
    function("right", &[Text, Int], TEXT),
    function("trim", &[Text], TEXT),
    function("trimLeft", &[Text], TEXT),
    function("trimRight", &[Text], TEXT),
    function("reverse", &[Text], TEXT),
    function("repeat", &[Text, Int], TEXT),
    function("leftPad", &[Text, Int, Text], TEXT).optional(1),
    function("rightPad", &[Text, Int, Text], TEXT).optional(1),
    function("startsWith", &[Text, Text], YES_NO),
    function("endsWith", &[Text, Text], YES_NO),
    function("position", &[Text, Text], COUNT),
    function("positionCaseInsensitive", &[Text, Text], COUNT),
    function("like", &[Text, Text], YES_NO),
    function("ilike", &[Text, Text], YES_NO),
    function("notLike", &[Text, Text], YES_NO),
    function("match", &[Text, Text], YES_NO),
    function("extract", &[Text, Text], TEXT),
    function("extractAll", &[Text, Text], TEXTS),
    function("replaceOne", &[Text, Text, Text], TEXT),
    function("replaceAll", &[Text, Text, Text], TEXT).also(&["replace"]),
    function("replaceRegexpOne", &[Text, Text, Text], TEXT),
    function("replaceRegexpAll", &[Text, Text, Text], TEXT),
    function("splitByChar", &[Text, Text], TEXTS),
    function("splitByString", &[Text, Text], TEXTS),
    function("splitByRegexp", &[Text, Text], TEXTS),
    function("arrayStringConcat", &[Array, Text], TEXT).optional(1),
    function("format", &[ConstText, Any], TEXT).repeats(),
    function("base64Encode", &[Text], TEXT),
    function("base64Decode", &[Text], TEXT),
    function("tryBase64Decode", &[Text], TEXT),
    function("multiSearchAny", &[Text, Array], YES_NO),
    function("multiSearchAnyCaseInsensitive", &[Text, Array], YES_NO),
    function("countSubstrings", &[Text, Text], COUNT),
    function("ascii", &[Text], Returns::Kind(Fixed::Int32)),
];

/// Where nothing is found the answer is the type's default, so nothing but a null text gives null.
pub(super) const JSON: &[Function] = &[
    function("JSONExtractString", &[Text, Key], TEXT).optional(1).repeats(),
    function("JSONExtractInt", &[Text, Key], Returns::Kind(Fixed::Int64)).optional(1).repeats(),
    function("JSONExtractUInt", &[Text, Key], COUNT).optional(1).repeats(),
    function("JSONExtractFloat", &[Text, Key], Returns::Kind(Fixed::Float)).optional(1).repeats(),
    function("JSONExtractBool", &[Text, Key], Returns::Kind(Fixed::Bool)).optional(1).repeats(),
    function("JSONExtractRaw", &[Text, Key], TEXT).optional(1).repeats(),
    function("JSONExtractArrayRaw", &[Text, Key], TEXTS).optional(1).repeats(),
    function("JSONExtractKeys", &[Text, Key], TEXTS).optional(1).repeats(),
    function("JSONExtractKeysAndValuesRaw", &[Text, Key], Returns::By(keys_and_values))
        .optional(1)
        .repeats(),
    // Its last argument names the type, which the resolver reads.
    function("JSONExtract", &[Text, Key], TEXT).repeats().nulls(Nulls::Own),
    function("JSONHas", &[Text, Key], YES_NO).optional(1).repeats(),
    function("JSONLength", &[Text, Key], COUNT).optional(1).repeats(),
    function("JSONType", &[Text, Key], TEXT).optional(1).repeats(),
    function("isValidJSON", &[Text], YES_NO),
];

pub(super) const URLS: &[Function] = &[
    function("protocol", &[Text], TEXT),
    function("domain", &[Text], TEXT),
    function("domainWithoutWWW", &[Text], TEXT),
    function("topLevelDomain", &[Text], TEXT),
    function("path", &[Text], TEXT),
    function("pathFull", &[Text], TEXT),
    function("queryString", &[Text], TEXT),
    function("fragment", &[Text], TEXT),
    function("extractURLParameter", &[Text, Text], TEXT),
    function("cutQueryString", &[Text], TEXT),
    function("cutQueryStringAndFragment", &[Text], TEXT),
    function("decodeURLComponent", &[Text], TEXT),
    function("encodeURLComponent", &[Text], TEXT),
];

fn has_length(one: &Type) -> bool {
    one.kind.is_text() || matches!(one.kind, Kind::Array(_) | Kind::Map(_) | Kind::Null)
}

fn length(types: &[Type]) -> Option<Type> {
    types.first().is_some_and(has_length).then(|| Kind::UInt(64).into())
}

fn emptiness(types: &[Type]) -> Option<Type> {
    types.first().is_some_and(has_length).then(|| Kind::UInt(8).into())
}

fn keys_and_values(_: &[Type]) -> Option<Type> {
    Some(Type::array(Kind::Tuple(vec![Kind::Text.into(), Kind::Text.into()]).into()))
}
