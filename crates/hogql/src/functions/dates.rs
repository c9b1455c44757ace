//! Signatures of date and time functions. They use the project's time zone unless the argument's type
//! names another.

use super::scalars::time_plus_interval;
use super::{Arg, Fixed, Function, Returns, function};
use crate::ast::Unit;
use crate::types::{Kind, Type};

use Arg::Unit as UnitName;
use Arg::{ConstInt, ConstString, Int, Interval, Number, Time, Zone};

const fn part(name: &'static str, kind: Fixed) -> Function {
    function(name, &[Time], Returns::Kind(kind))
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
    function("now", &[Zone], Returns::Kind(Fixed::DateTime)).optional(1),
    function("today", &[], Returns::Kind(Fixed::Date)),
    function("yesterday", &[], Returns::Kind(Fixed::Date)),
    part("toYear", Fixed::UInt16),
    part("toQuarter", Fixed::UInt8),
    part("toMonth", Fixed::UInt8),
    part("toDayOfYear", Fixed::UInt16),
    part("toDayOfMonth", Fixed::UInt8),
    part("toDayOfWeek", Fixed::UInt8),
    part("toHour", Fixed::UInt8),
    part("toMinute", Fixed::UInt8),
    part("toSecond", Fixed::UInt8),
    part("toUnixTimestamp", Fixed::UInt32),
    part("toUnixTimestamp64Milli", Fixed::Int64),
    function("fromUnixTimestamp", &[Number], Returns::Kind(Fixed::DateTime)),
    day_of("toStartOfYear"),
    day_of("toStartOfQuarter"),
    day_of("toStartOfMonth"),
    function("toStartOfWeek", &[Time, ConstInt], Returns::Kind(Fixed::Date)).optional(1),
    start_of("toStartOfDay"),
    start_of("toStartOfHour"),
    start_of("toStartOfMinute"),
    start_of("toStartOfSecond"),
    start_of("toStartOfFiveMinutes"),
    start_of("toStartOfTenMinutes"),
    start_of("toStartOfFifteenMinutes"),
    function("toStartOfInterval", &[Time, Interval], Returns::By(start_of_interval)),
    day_of("toMonday"),
    day_of("toLastDayOfMonth"),
    part("toISOWeek", Fixed::UInt8),
    part("toYYYYMM", Fixed::UInt32),
    part("toYYYYMMDD", Fixed::UInt32),
    function("dateTrunc", &[UnitName, Time], Returns::By(|types| start(types.get(1..)?)))
        .also(&["date_trunc"]),
    function("dateDiff", &[UnitName, Time, Time], Returns::Kind(Fixed::Int64)).also(&["date_diff"]),
    function("age", &[UnitName, Time, Time], Returns::Kind(Fixed::Int64)),
    function("dateAdd", &[UnitName, Int, Time], Returns::By(date_add)).also(&["date_add"]),
    function("dateSub", &[UnitName, Int, Time], Returns::By(date_add)).also(&["date_sub"]),
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
        .optional(1),
    // The zone is part of the result type, which the resolver sets.
    function("toTimeZone", &[Time, Zone], Returns::Arg(0)),
    start_of("timeSlot"),
    part("monthName", Fixed::String),
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
