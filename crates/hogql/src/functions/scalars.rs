//! Signatures of conditional, conversion and arithmetic functions.

use super::{Arg, Fixed, Function, Nulls, Returns, common, function, not_null};
use crate::types::{Kind, Type, bits, integer};

use Arg::{Any, Array, Condition, Int, Number};

const FLOAT: Returns = Returns::Kind(Fixed::Float);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);
const NULLABLE_FIRST_ARG: Returns = Returns::By(|types| Some(types.first()?.clone().or_null(true)));

pub(super) const CONDITIONS: &[Function] = &[
    function("if", &[Condition, Any, Any], Returns::Common(1)).nulls(Nulls::Custom),
    function("multiIf", &[Any, Any, Any], Returns::By(multi_if)).repeats().nulls(Nulls::Custom),
    function("coalesce", &[Any], Returns::By(coalesce)).repeats().nulls(Nulls::Custom),
    function("ifNull", &[Any, Any], Returns::By(coalesce)).nulls(Nulls::Custom),
    function("nullIf", &[Any, Any], NULLABLE_FIRST_ARG).nulls(Nulls::Custom),
    function("isNull", &[Any], UINT8).nulls(Nulls::Custom),
    function("isNotNull", &[Any], UINT8).nulls(Nulls::Custom),
    function("assumeNotNull", &[Any], Returns::By(|types| Some(not_null(types.first()?.clone()))))
        .nulls(Nulls::Custom),
    function("toNullable", &[Any], NULLABLE_FIRST_ARG).nulls(Nulls::Custom),
    function("greatest", &[Any, Any], Returns::Common(0)).repeats(),
    function("least", &[Any, Any], Returns::Common(0)).repeats(),
    function("isNaN", &[Number], UINT8),
    function("isFinite", &[Number], UINT8),
    function("ifNotFinite", &[Number, Number], Returns::Common(0)),
    function("isInfinite", &[Number], UINT8),
    function("isZeroOrNull", &[Number], UINT8)
        .nulls(Nulls::Custom)
        .means(&["isNull(_1) or _1 = 0"]),
    function("transform", &[Any, Array, Array, Any], Returns::By(transform))
        .optional(1)
        .nulls(Nulls::Custom),
    // ClickHouse reads less with it; every row passes.
    function("indexHint", &[Any], UINT8).nulls(Nulls::Custom).means(&["1"]),
];

pub(super) const ARITHMETIC: &[Function] = &[
    function("plus", &[Any, Any], Returns::By(plus)),
    function("minus", &[Any, Any], Returns::By(minus)),
    function("multiply", &[Number, Number], Returns::By(|types| wider(types, false))),
    function("divide", &[Number, Number], FLOAT),
    function("intDiv", &[Number, Number], Returns::By(int_div)),
    function("intDivOrZero", &[Number, Number], Returns::By(int_div)),
    function("modulo", &[Number, Number], Returns::Common(0)),
    function("moduloOrZero", &[Number, Number], Returns::Common(0)),
    function("positiveModulo", &[Number, Number], Returns::Common(0))
        .also(&["positive_modulo", "pmod"]),
    function("negate", &[Number], Returns::By(negate)),
    function("abs", &[Number], Returns::By(abs)),
    function("round", &[Number, Int], Returns::Arg(0)).optional(1),
    function("floor", &[Number, Int], Returns::Arg(0)).optional(1),
    function("ceil", &[Number, Int], Returns::Arg(0)).optional(1),
    function("trunc", &[Number, Int], Returns::Arg(0)).optional(1),
    function("sqrt", &[Number], FLOAT),
    function("pow", &[Number, Number], FLOAT).also(&["power"]),
    function("exp", &[Number], FLOAT),
    function("log", &[Number], FLOAT).also(&["ln"]),
    function("log2", &[Number], FLOAT),
    function("log10", &[Number], FLOAT),
    function("sign", &[Number], Returns::Kind(Fixed::Int8)),
    function("gcd", &[Int, Int], Returns::By(|types| wider(types, false))),
    function("lcm", &[Int, Int], Returns::By(|types| wider(types, false))),
    function("max2", &[Number, Number], FLOAT),
    function("min2", &[Number, Number], FLOAT),
    function("pi", &[], FLOAT),
    function("e", &[], FLOAT),
];

/// `multiIf`: conditions and values alternate, then the default. The resolver checks the conditions.
fn multi_if(types: &[Type]) -> Option<Type> {
    if types.len().is_multiple_of(2) {
        return None;
    }
    let (last, pairs) = types.split_last()?;
    let values: Vec<Type> = pairs.iter().skip(1).step_by(2).chain([last]).cloned().collect();
    common(&values)
}

/// `transform(x, from, to[, default])`: the default is `x` itself unless the call gives one.
fn transform(types: &[Type]) -> Option<Type> {
    let [value, from, to, rest @ ..] = types else { return None };
    value.common(from.element()?)?;
    to.element()?.common(rest.first().unwrap_or(value))
}

/// `coalesce`: nullable only if all arguments are.
fn coalesce(types: &[Type]) -> Option<Type> {
    let nullable = types.iter().all(|one| one.nullable);
    let common = common(types)?;
    Some(Type { nullable, ..common })
}

/// The next wider type, as in ClickHouse, so that one operation does not overflow.
fn wider(types: &[Type], signed: bool) -> Option<Type> {
    let [a, b] = types else { return None };
    let kind = match (&a.kind, &b.kind) {
        (Kind::Null, _) | (_, Kind::Null) => Kind::Int(64),
        (a, b) if a.is_integer() && b.is_integer() => {
            let ((signed_a, a), (signed_b, b)) = (bits(a), bits(b));
            integer(signed || signed_a || signed_b, a.max(b).saturating_mul(2))
        }
        _ => a.common(b).filter(|common| common.kind.is_number())?.kind,
    };
    Some(kind.into())
}

/// `+` and `-`: a time and an interval, a date and days, or two numbers.
fn plus(types: &[Type]) -> Option<Type> {
    let [a, b] = types else { return None };
    match (&a.kind, &b.kind) {
        (time, by) | (by, time) if time.is_time() && steps(by) => {
            Some(time_plus_interval(time, by))
        }
        _ => wider(types, false),
    }
}

fn minus(types: &[Type]) -> Option<Type> {
    let [a, b] = types else { return None };
    match (&a.kind, &b.kind) {
        (time, by) if time.is_time() && steps(by) => Some(time_plus_interval(time, by)),
        (a, b) if a.is_time() && b.is_time() => Some(Kind::Int(64).into()),
        _ => wider(types, true),
    }
}

/// Integer division: the width of the dividend, signed if either side is.
fn int_div(types: &[Type]) -> Option<Type> {
    let [a, b] = types else { return None };
    if !a.kind.is_integer() || !b.kind.is_integer() {
        return Some(Kind::Int(64).into());
    }
    let ((signed_a, size), (signed_b, _)) = (bits(&a.kind), bits(&b.kind));
    Some(integer(signed_a || signed_b, size).into())
}

fn abs(types: &[Type]) -> Option<Type> {
    let kind = match &types.first()?.kind {
        kind if kind.is_integer() => integer(false, bits(kind).1),
        kind => kind.clone(),
    };
    Some(kind.into())
}

fn steps(kind: &Kind) -> bool {
    matches!(kind, Kind::Interval(_)) || kind.is_integer()
}

/// A date plus hours or shorter units is a date-time.
pub(crate) fn time_plus_interval(time: &Kind, by: &Kind) -> Type {
    use crate::ast::Unit;
    let within_a_day = matches!(by, Kind::Interval(Unit::Second | Unit::Minute | Unit::Hour));
    if *time == Kind::Date && within_a_day {
        return Kind::DATE_TIME.into();
    }
    time.clone().into()
}

fn negate(types: &[Type]) -> Option<Type> {
    let kind = match &types.first()?.kind {
        kind if kind.is_integer() => {
            let (signed, size) = bits(kind);
            integer(true, if signed { size } else { size.saturating_mul(2) })
        }
        kind => kind.clone(),
    };
    Some(kind.into())
}
