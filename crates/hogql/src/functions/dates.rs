//! Signatures of date and time functions. They use the project's time zone unless the argument's type
//! names another.

use super::scalars::time_plus_interval;
use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::ast::Unit;
use crate::types::{Kind, Type};

use Arg::Unit as UnitName;
use Arg::{ConstInt, ConstString, Int, Interval, Number, Time, Zone};

const fn part(name: &'static str, kind: Fixed) -> Function {
    function(name, &[Time], Returns::Kind(kind))
}

/// A mode says on which day weeks start and which week is the first; then a time zone.
const fn part_in_mode(name: &'static str, kind: Fixed) -> Function {
    function(name, &[Time, ConstInt, Zone], Returns::Kind(kind)).optional(2)
}

const fn day_of(name: &'static str) -> Function {
    function(name, &[Time], Returns::Kind(Fixed::Date))
}

/// Retains the zone of the argument's type.
const fn start_of(name: &'static str) -> Function {
    function(name, &[Time], Returns::By(start))
}

const fn shift(name: &'static str, returns: Returns) -> Function {
    function(name, &[Time, Int], returns)
}

const fn interval(name: &'static str, returns: Returns) -> Function {
    function(name, &[Int], returns)
}

const DAYS: Returns = Returns::Arg(0);
const SECONDS: Returns = Returns::By(|types| {
    Some(time_plus_interval(&types.first()?.kind, &Kind::Interval(Unit::Second)))
});

pub(super) const DATES: &[Function] = &[
    function("now", &[Zone], Returns::Kind(Fixed::DateTime)).optional(1).also(&["nowInBlock"]),
    function("current_timestamp", &[], Returns::Kind(Fixed::DateTime)).means(&["now()"]),
    function("today", &[], Returns::Kind(Fixed::Date)).also(&["current_date", "curdate"]),
    function("yesterday", &[], Returns::Kind(Fixed::Date)),
    part("toYear", Fixed::UInt16).also(&["year"]),
    part("toQuarter", Fixed::UInt8).also(&["quarter"]),
    part("toMonth", Fixed::UInt8).also(&["month"]),
    part("toDayOfYear", Fixed::UInt16).also(&["dayOfYear"]),
    part("toDayOfMonth", Fixed::UInt8).also(&["dayOfMonth", "day"]),
    part_in_mode("toDayOfWeek", Fixed::UInt8).also(&["dayOfWeek"]),
    part("toHour", Fixed::UInt8).also(&["hour"]),
    part("toMinute", Fixed::UInt8).also(&["minute"]),
    part("toSecond", Fixed::UInt8).also(&["second"]),
    part("toMillisecond", Fixed::UInt16).also(&["millisecond"]),
    part("toISOYear", Fixed::UInt16),
    part_in_mode("toWeek", Fixed::UInt8).also(&["week"]),
    part_in_mode("toYearWeek", Fixed::UInt32).also(&["yearweek"]),
    part("toYYYYMMDDhhmmss", Fixed::UInt64),
    part("toModifiedJulianDay", Fixed::Int32),
    function("fromModifiedJulianDay", &[Int], Returns::Kind(Fixed::Date))
        .means(&["toDate('1970-01-01') + (_1 - 40587)"]),
    part("timeZoneOffset", Fixed::Int32),
    part("timeZoneOf", Fixed::String).nulls(Nulls::Custom).also(&["timezoneOf"]),
    function("date_part", &[UnitName, Time], Returns::Kind(Fixed::UInt16)),
    function("toUnixTimestamp", &[Time, Zone], Returns::Kind(Fixed::UInt32)).optional(1),
    part("toUnixTimestamp64Milli", Fixed::Int64),
    part("toUnixTimestamp64Micro", Fixed::Int64),
    part("toUnixTimestamp64Second", Fixed::Int64),
    function("fromUnixTimestamp", &[Number, Zone], Returns::Kind(Fixed::DateTime))
        .optional(1)
        .also(&["to_timestamp"]),
    function("fromUnixTimestamp64Second", &[Int, Zone], Returns::Kind(Fixed::DateTime)).optional(1),
    function("fromUnixTimestamp64Milli", &[Int, Zone], Returns::Kind(Fixed::DateTime)).optional(1),
    function("fromUnixTimestamp64Micro", &[Int, Zone], Returns::Kind(Fixed::DateTime)).optional(1),
    function("makeDate", &[Int, Int, Int], Returns::Kind(Fixed::Date))
        .also(&["make_date", "makeDate32"]),
    function("makeDateTime", &[Int, Int, Int, Int, Int, Int, Zone], Returns::Kind(Fixed::DateTime))
        .optional(1)
        .also(&["make_timestamp", "make_timestamptz"]),
    day_of("toStartOfYear"),
    day_of("toStartOfQuarter"),
    day_of("toStartOfMonth"),
    function("toStartOfWeek", &[Time, ConstInt], Returns::Kind(Fixed::Date)).optional(1),
    function("toStartOfDay", &[Time, Zone], Returns::By(start)).optional(1),
    start_of("toStartOfHour"),
    start_of("toStartOfMinute"),
    start_of("toStartOfSecond"),
    start_of("toStartOfFiveMinutes"),
    start_of("toStartOfTenMinutes"),
    start_of("toStartOfFifteenMinutes"),
    function("toStartOfInterval", &[Time, Interval, Zone], Returns::By(start_of_interval))
        .optional(1),
    day_of("toStartOfISOYear"),
    function("toLastDayOfWeek", &[Time, ConstInt], Returns::Kind(Fixed::Date)).optional(1),
    day_of("toMonday"),
    day_of("toLastDayOfMonth"),
    part("toISOWeek", Fixed::UInt8),
    part("toYYYYMM", Fixed::UInt32),
    part("toYYYYMMDD", Fixed::UInt32),
    // The start of an interval that is counted from a given time.
    function("date_bin", &[Interval, Time, Time], Returns::By(|types| start(types.get(1..)?)))
        .means(&["_3 + toIntervalSecond(intDiv(toUnixTimestamp(_2) - toUnixTimestamp(_3), \
             toUnixTimestamp(_3 + _1) - toUnixTimestamp(_3)) * \
             (toUnixTimestamp(_3 + _1) - toUnixTimestamp(_3)))"]),
    function("tumbleStart", &[Time, Interval], Returns::By(start_of_interval))
        .means(&["toStartOfInterval(_1, _2)"]),
    function("tumbleEnd", &[Time, Interval], Returns::By(start_of_interval))
        .means(&["toStartOfInterval(_1, _2) + _2"]),
    function(
        "tumble",
        &[Time, Interval],
        Returns::By(|types| {
            let start = start_of_interval(types)?;
            Some(Kind::Tuple(vec![start.clone(), start]).into())
        }),
    )
    .means(&["tuple(toStartOfInterval(_1, _2), toStartOfInterval(_1, _2) + _2)"]),
    function("dateTrunc", &[UnitName, Time, Zone], Returns::By(|types| start(types.get(1..)?)))
        .optional(1)
        .also(&["date_trunc"]),
    function("dateDiff", &[UnitName, Time, Time, Zone], Returns::Kind(Fixed::Int64))
        .optional(1)
        .also(&["date_diff", "timestampDiff"]),
    function("age", &[UnitName, Time, Time], Returns::Kind(Fixed::Int64)),
    function("dateAdd", &[UnitName, Int, Time], Returns::By(date_add))
        .also(&["date_add", "timestampAdd"]),
    function("dateSub", &[UnitName, Int, Time], Returns::By(date_add)).also(&[
        "date_sub",
        "date_subtract",
        "timestampSub",
    ]),
    shift("addSeconds", SECONDS),
    shift("addMinutes", SECONDS),
    shift("addHours", SECONDS),
    shift("addDays", DAYS),
    shift("addWeeks", DAYS),
    shift("addMonths", DAYS),
    shift("addQuarters", DAYS),
    shift("addYears", DAYS),
    shift("subtractSeconds", SECONDS),
    shift("subtractMinutes", SECONDS),
    shift("subtractHours", SECONDS),
    shift("subtractDays", DAYS),
    shift("subtractWeeks", DAYS),
    shift("subtractMonths", DAYS),
    shift("subtractQuarters", DAYS),
    shift("subtractYears", DAYS),
    interval("toIntervalSecond", Returns::By(|_| Some(Kind::Interval(Unit::Second).into()))),
    interval("toIntervalMinute", Returns::By(|_| Some(Kind::Interval(Unit::Minute).into()))),
    interval("toIntervalHour", Returns::By(|_| Some(Kind::Interval(Unit::Hour).into()))),
    interval("toIntervalDay", Returns::By(|_| Some(Kind::Interval(Unit::Day).into()))),
    interval("toIntervalWeek", Returns::By(|_| Some(Kind::Interval(Unit::Week).into()))),
    interval("toIntervalMonth", Returns::By(|_| Some(Kind::Interval(Unit::Month).into()))),
    interval("toIntervalQuarter", Returns::By(|_| Some(Kind::Interval(Unit::Quarter).into()))),
    interval("toIntervalYear", Returns::By(|_| Some(Kind::Interval(Unit::Year).into()))),
    function("formatDateTime", &[Time, ConstString, Zone], Returns::Kind(Fixed::String))
        .optional(1)
        .also(&["to_char"]),
    function("timezone", &[Zone, Time], Returns::Arg(1)).means(&["toTimeZone(_2, _1)"]),
    // The zone is part of the result type, which the resolver sets.
    function("toTimeZone", &[Time, Zone], Returns::Arg(0)),
    start_of("timeSlot"),
    // The half hours, or slots of so many seconds, that a duration touches.
    function("timeSlots", &[Time, Int, Int], Returns::By(|types| Some(Type::array(start(types)?))))
        .optional(1)
        .means(&[
            "arrayMap(_slot -> toStartOfMinute(_1) + toIntervalSecond(_slot * 1800 - toUnixTimestamp(toStartOfMinute(_1))), range(intDiv(toUnixTimestamp(_1), 1800), intDiv(toUnixTimestamp(_1) + _2, 1800) + 1))",
            "arrayMap(_slot -> toStartOfMinute(_1) + toIntervalSecond(_slot * _3 - toUnixTimestamp(toStartOfMinute(_1))), range(intDiv(toUnixTimestamp(_1), _3), intDiv(toUnixTimestamp(_1) + _2, _3) + 1))",
        ]),
    part("monthName", Fixed::String),
    function("dateName", &[ConstString, Time, Zone], Returns::Kind(Fixed::String)).optional(1),
];

/// A date-time of whole seconds, in the zone of the argument.
fn start(types: &[Type]) -> Option<Type> {
    let kind = match &types.first()?.kind {
        Kind::DateTime(moment) => {
            let mut moment = moment.clone();
            moment.precision = 0;
            Kind::DateTime(moment)
        }
        _ => Kind::DATE_TIME,
    };
    Some(kind.into())
}

fn start_of_interval(types: &[Type]) -> Option<Type> {
    match types.get(1)?.kind {
        Kind::Interval(Unit::Week | Unit::Month | Unit::Quarter | Unit::Year) => {
            Some(Kind::Date.into())
        }
        _ => start(types),
    }
}

/// The resolver adjusts the type by the unit: a date plus hours is a date-time.
fn date_add(types: &[Type]) -> Option<Type> {
    Some(types.get(2)?.kind.clone().into())
}
