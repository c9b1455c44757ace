//! Signatures of functions that search, compare and take apart strings.

use super::{Arg, Fixed, Function, Returns, function};
use crate::types::{Kind, Type};

use Arg::{Array, Int, String};

const STRING: Returns = Returns::Kind(Fixed::String);
const STRINGS: Returns = Returns::Kind(Fixed::Strings);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const UINT64: Returns = Returns::Kind(Fixed::UInt64);
const FLOAT: Returns = Returns::Kind(Fixed::Float);
const POSITIONS: Returns = Returns::Kind(Fixed::Numbers);
/// Null if the needle is no token.
const MAYBE: Returns = Returns::By(|_| Some(Type::from(Kind::UInt(8)).or_null(true)));
const NEEDLE: &[Arg] = &[String, String];
const NEEDLES: &[Arg] = &[String, Array];

pub(super) const SEARCH: &[Function] = &[
    function("position", &[String, String, Int], UINT64).optional(1).also(&["positionUTF8"]),
    function("positionCaseInsensitive", &[String, String, Int], UINT64)
        .optional(1)
        .also(&["positionCaseInsensitiveUTF8"]),
    function("locate", &[String, String, Int], UINT64)
        .optional(1)
        .means(&["position(_2, _1)", "position(_2, _1, _3)"]),
    function("match", NEEDLE, UINT8),
    function("extract", NEEDLE, STRING),
    function("extractAll", NEEDLE, STRINGS),
    function("extractGroups", NEEDLE, STRINGS),
    function("extractAllGroups", NEEDLE, Returns::Kind(Fixed::StringLists))
        .also(&["extractAllGroupsVertical"]),
    function("extractAllGroupsHorizontal", NEEDLE, Returns::Kind(Fixed::StringLists)),
    function("regexpExtract", &[String, String, Int], STRING).optional(1).also(&["REGEXP_EXTRACT"]),
    function("regexpQuoteMeta", &[String], STRING),
    function("countMatches", NEEDLE, UINT64),
    function("countMatchesCaseInsensitive", NEEDLE, UINT64),
    function("multiMatchAny", NEEDLES, UINT8),
    function("multiMatchAnyIndex", NEEDLES, UINT64),
    function("multiMatchAllIndices", NEEDLES, POSITIONS),
    function("multiSearchAny", NEEDLES, UINT8).also(&["multiSearchAnyUTF8"]),
    function("multiSearchAnyCaseInsensitive", NEEDLES, UINT8)
        .also(&["multiSearchAnyCaseInsensitiveUTF8"]),
    function("multiSearchFirstIndex", NEEDLES, UINT64).also(&["multiSearchFirstIndexUTF8"]),
    function("multiSearchFirstIndexCaseInsensitive", NEEDLES, UINT64)
        .also(&["multiSearchFirstIndexCaseInsensitiveUTF8"]),
    function("multiSearchFirstPosition", NEEDLES, UINT64).also(&["multiSearchFirstPositionUTF8"]),
    function("multiSearchFirstPositionCaseInsensitive", NEEDLES, UINT64)
        .also(&["multiSearchFirstPositionCaseInsensitiveUTF8"]),
    function("multiSearchAllPositions", NEEDLES, POSITIONS).also(&["multiSearchAllPositionsUTF8"]),
    function("multiSearchAllPositionsCaseInsensitive", NEEDLES, POSITIONS)
        .also(&["multiSearchAllPositionsCaseInsensitiveUTF8"]),
    function("countSubstrings", &[String, String, Int], UINT64).optional(1),
    function("countSubstringsCaseInsensitive", &[String, String, Int], UINT64)
        .optional(1)
        .also(&["countSubstringsCaseInsensitiveUTF8"]),
    function("hasToken", NEEDLE, UINT8),
    function("hasTokenCaseInsensitive", NEEDLE, UINT8),
    function("hasTokenOrNull", NEEDLE, MAYBE),
    function("hasTokenCaseInsensitiveOrNull", NEEDLE, MAYBE),
    function("hasAnyTokens", NEEDLES, UINT8),
    function("hasAllTokens", NEEDLES, UINT8),
    function("hasSubsequence", NEEDLE, UINT8).also(&["hasSubsequenceUTF8"]),
    function("hasSubsequenceCaseInsensitive", NEEDLE, UINT8)
        .also(&["hasSubsequenceCaseInsensitiveUTF8"]),
    function("splitByChar", &[String, String, Int], STRINGS).optional(1),
    function("splitByString", &[String, String, Int], STRINGS).optional(1),
    function("splitByRegexp", &[String, String, Int], STRINGS).optional(1),
    function("splitByWhitespace", &[String, Int], STRINGS).optional(1),
    function("splitByNonAlpha", &[String, Int], STRINGS).optional(1),
    function("alphaTokens", &[String, Int], STRINGS).optional(1).also(&["splitByAlpha"]),
    function("tokens", &[String], STRINGS),
    function("ngrams", &[String, Int], STRINGS),
    function("split_part", &[String, String, Int], STRING)
        .means(&["if(_3 > 0, arrayElement(splitByString(_2, _1), _3), '')"]),
    function("replaceOne", &[String, String, String], STRING),
    function("replaceAll", &[String, String, String], STRING).also(&["replace"]),
    function("replaceRegexpOne", &[String, String, String], STRING),
    function("replaceRegexpAll", &[String, String, String], STRING).also(&["REGEXP_REPLACE"]),
    function("translate", &[String, String, String], STRING).also(&["translateUTF8"]),
    function("levenshteinDistance", NEEDLE, UINT64).also(&[
        "editDistance",
        "editDistanceUTF8",
        "levenshteinDistanceUTF8",
    ]),
    function("damerauLevenshteinDistance", NEEDLE, UINT64),
    function("jaroSimilarity", NEEDLE, FLOAT),
    function("jaroWinklerSimilarity", NEEDLE, FLOAT),
    function("stringJaccardIndex", NEEDLE, FLOAT).also(&["stringJaccardIndexUTF8"]),
    function("byteHammingDistance", NEEDLE, UINT64).also(&["mismatches"]),
];
