//! Signatures of conversions. What cannot be read as the wanted type is null, the type's default
//! (`OrZero`) or the given value (`OrDefault`), never an error.

use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::types::Kind;

use Arg::{Any, ConstInt, ConstString, Number, String, Zone};

const STRING: Returns = Returns::Kind(Fixed::String);
const FLOAT: Returns = Returns::Kind(Fixed::Float);

const fn or_null(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    function(name, args, returns).nulls(Nulls::OrNull)
}

/// The default of the type, or the second argument, also in place of null.
const fn or_default(name: &'static str, kind: Fixed) -> Function {
    function(name, &[Any, Any], Returns::Kind(kind)).optional(1).nulls(Nulls::Custom)
}

const fn or_zero(name: &'static str, kind: Fixed) -> Function {
    function(name, &[Any], Returns::Kind(kind))
}

/// A number type: `toX` with its aliases, `toXOrZero` and `toXOrDefault`.
macro_rules! number {
    ($name:literal, $kind:expr, $($alias:expr),* $(,)?) => {
        [
            or_null($name, &[Any], Returns::Kind($kind)).also(&[concat!($name, "OrNull"), $($alias),*]),
            or_zero(concat!($name, "OrZero"), $kind),
            or_default(concat!($name, "OrDefault"), $kind),
        ]
    };
}

const INT64: [Function; 3] = number!("toInt64", Fixed::Int64, "_toInt64");
const INT32: [Function; 3] = number!("toInt32", Fixed::Int32, "_toInt32");
const INT16: [Function; 3] = number!("toInt16", Fixed::Int16, "_toInt16");
const INT8: [Function; 3] = number!("toInt8", Fixed::Int8, "_toInt8");
const UINT64: [Function; 3] = number!("toUInt64", Fixed::UInt64, "_toUInt64", "toUInt");
const UINT32: [Function; 3] = number!("toUInt32", Fixed::UInt32, "_toUInt32");
const UINT16: [Function; 3] = number!("toUInt16", Fixed::UInt16, "_toUInt16");
const UINT8: [Function; 3] = number!("toUInt8", Fixed::UInt8, "_toUInt8");
const FLOAT64: [Function; 3] = number!("toFloat64", Fixed::Float, "toFloat", "toFloatOrNull");
/// There is one floating-point type, with 64 bits.
const FLOAT32: [Function; 3] = number!("toFloat32", Fixed::Float,);

const DECIMAL: &[Arg] = &[Any, ConstInt];

pub(super) const CONVERSIONS: &[Function] = &[
    function("toString", &[Any, Zone], STRING).optional(1).also(&["toNullableString"]),
    or_null("toInt", &[Any], Returns::Kind(Fixed::Int64)).also(&["toIntOrNull"]),
    or_zero("toIntOrZero", Fixed::Int64),
    INT64[0],
    INT64[1],
    INT64[2],
    INT32[0],
    INT32[1],
    INT32[2],
    INT16[0],
    INT16[1],
    INT16[2],
    INT8[0],
    INT8[1],
    INT8[2],
    UINT64[0],
    UINT64[1],
    UINT64[2],
    UINT32[0],
    UINT32[1],
    UINT32[2],
    UINT16[0],
    UINT16[1],
    UINT16[2],
    UINT8[0],
    UINT8[1],
    UINT8[2],
    FLOAT64[0],
    FLOAT64[1],
    FLOAT64[2],
    FLOAT32[0],
    FLOAT32[1],
    FLOAT32[2],
    or_zero("toFloatOrZero", Fixed::Float),
    function("toFloatOrDefault", &[Any, Number], FLOAT).optional(1).nulls(Nulls::Custom),
    // Decimals have 38 digits whatever their name says.
    or_null("toDecimal", DECIMAL, Returns::Arg(0)).also(&[
        "toDecimal32",
        "toDecimal64",
        "toDecimal128",
        "toDecimal256",
        "toDecimal32OrNull",
        "toDecimal64OrNull",
        "toDecimal128OrNull",
        "toDecimal256OrNull",
    ]),
    function("toDecimalOrZero", DECIMAL, Returns::Arg(0)).also(&[
        "toDecimal32OrZero",
        "toDecimal64OrZero",
        "toDecimal128OrZero",
        "toDecimal256OrZero",
    ]),
    function("toBool", &[Any], Returns::Kind(Fixed::Bool)),
    or_null("toUUID", &[Any], Returns::Kind(Fixed::Uuid)).also(&["toUUIDOrNull"]),
    or_zero("toUUIDOrZero", Fixed::Uuid),
    or_default("toUUIDOrDefault", Fixed::Uuid),
    or_null("toDate", &[Any, Zone], Returns::Kind(Fixed::Date)).optional(1).also(&[
        "toDateOrNull",
        "_toDate",
        "to_date",
        "toDate32",
        "toDate32OrNull",
    ]),
    or_zero("toDateOrZero", Fixed::Date).also(&["toDate32OrZero"]),
    or_default("toDateOrDefault", Fixed::Date).also(&["toDate32OrDefault"]),
    or_null("toDateTime", &[Any, Zone], Returns::Kind(Fixed::DateTime)).optional(1).also(&[
        "toDateTimeOrNull",
        "toDateTime32",
        "parseDateTime32BestEffort",
        "parseDateTime32BestEffortOrNull",
    ]),
    or_zero("toDateTimeOrZero", Fixed::DateTime)
        .also(&["parseDateTimeBestEffortOrZero", "parseDateTime32BestEffortOrZero"]),
    or_default("toDateTimeOrDefault", Fixed::DateTime),
    or_null("toDateTime64", &[Any, ConstInt, Zone], Returns::Kind(Fixed::DateTime))
        .optional(2)
        .also(&[
            "toDateTime64OrNull",
            "parseDateTime64BestEffort",
            "parseDateTime64BestEffortOrNull",
        ]),
    function("toDateTime64OrZero", &[Any, ConstInt, Zone], Returns::Kind(Fixed::DateTime))
        .optional(2)
        .also(&["parseDateTime64BestEffortOrZero"]),
    or_null("parseDateTimeBestEffort", &[Any, Zone], Returns::Kind(Fixed::DateTime))
        .optional(1)
        .also(&["parseDateTimeBestEffortOrNull"]),
    // In MySQL's format. As in PostHog, a string that does not fit it is null.
    or_null("parseDateTime", &[String, ConstString, Zone], Returns::Kind(Fixed::DateTime))
        .optional(2)
        .also(&["parseDateTimeOrNull", "str_to_date"]),
    function("parseDateTimeOrZero", &[String, ConstString, Zone], Returns::Kind(Fixed::DateTime))
        .optional(2),
    // The type that the last argument names; the resolver reads it.
    function("accurateCastOrNull", &[Any, ConstString], Returns::Arg(0))
        .nulls(Nulls::Custom)
        .also(&["accurateCast"]),
    function("toJSONString", &[Any], STRING).nulls(Nulls::Custom),
    function("toTypeName", &[Any], STRING).nulls(Nulls::Custom),
    function("hex", &[Any], STRING),
    function("unhex", &[String], STRING),
    function("cityHash64", &[Any], Returns::Kind(Fixed::UInt64)).repeats(),
    function("MD5", &[String], STRING),
    function("md5", &[String], STRING).means(&["hex(MD5(_1))"]),
    function("UUIDStringToNum", &[String], STRING).means(&["unhex(replaceAll(_1, '-', ''))"]),
    function(
        "UUIDv7ToDateTime",
        &[Any, Zone],
        Returns::By(|_| {
            let moment = crate::types::DateTimeType { precision: 3, zone: None };
            Some(Kind::DateTime(moment).into())
        }),
    )
    .optional(1),
    function(
        "sortableSemVer",
        &[String],
        Returns::By(|_| {
            Some(crate::types::Type::array(crate::types::Type::from(Kind::Int(64)).or_null(true)))
        }),
    )
    .means(&[SORTABLE_VERSION]),
];

/// An invalid version becomes `[NULL]`, which compares with nothing.
const SORTABLE_VERSION: &str = r"arrayMap(_part -> toInt(_part), splitByChar('.', ifNull(nullIf(extract(ifNull(_1, ''), '^\\s*v?((?:0|[1-9][0-9]*)\\.(?:0|[1-9][0-9]*)\\.(?:0|[1-9][0-9]*))(?:[-+][^\\s]*)?\\s*$'), ''), '_')))";
