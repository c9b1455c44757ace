//! Truncation, addition and differences in calendar units.

use hogql::ast::Unit;

use super::{
    DAY, HOUR, INSTANT_MAX, MINUTE, SECOND, ZoneClock, civil, days_of, days_of_month, floor_to,
    weekday,
};

/// Bound on the count of an interval's units; more would exceed every calendar.
const COUNT_MAX: i64 = 1 << 40;

pub(crate) fn micros_of(unit: Unit) -> Option<i64> {
    match unit {
        Unit::Second => Some(SECOND),
        Unit::Minute => Some(MINUTE),
        Unit::Hour => Some(HOUR),
        _ => None,
    }
}

/// The first day of the week, month, quarter or year that contains a day.
pub(crate) fn first_day(unit: Unit, day: i64) -> i64 {
    let (year, month, _) = civil(day);
    match unit {
        Unit::Week => day - weekday(day) + 1,
        Unit::Month => days_of(year, month, 1),
        Unit::Quarter => days_of(year, (month - 1) / 3 * 3 + 1, 1),
        Unit::Year => days_of(year, 1, 1),
        _ => day,
    }
}

/// Truncates an instant to a unit shorter than a day, in local time. `unit` is in microseconds.
pub(crate) fn start_within_day(unit: i64, instant: i64, clock: &mut ZoneClock) -> i64 {
    let offset = clock.offset(instant);
    floor_to(instant + offset, unit) - offset
}

/// Truncates an instant to a multiple of a unit (`toStartOfInterval`). Hours count from local
/// midnight, minutes and seconds from 1970, as in ClickHouse.
pub(crate) fn start_of_interval(
    count: i64,
    unit: Unit,
    instant: i64,
    clock: &mut ZoneClock,
) -> i64 {
    let count = count.min(COUNT_MAX);
    match unit {
        Unit::Hour if count > 1 => {
            let local = clock.local(instant);
            let (day, within) = (local.div_euclid(DAY), local.rem_euclid(DAY));
            let step = count.saturating_mul(HOUR);
            clock.instant(day * DAY + within / step * step)
        }
        Unit::Hour => start_within_day(HOUR, instant, clock),
        Unit::Minute | Unit::Second => {
            floor_to(instant, micros_of(unit).unwrap_or(SECOND).saturating_mul(count))
        }
        _ => {
            let day = first_day_of_interval(count, unit, clock.day(instant));
            clock.start_of_day(day)
        }
    }
}

/// Truncates a day to a multiple of days, weeks, months, quarters or years.
pub(crate) fn first_day_of_interval(count: i64, unit: Unit, day: i64) -> i64 {
    /// ClickHouse's origin for multiples of months.
    const FIRST_YEAR: i64 = 1900;
    let count = count.min(COUNT_MAX);
    let (year, month, _) = civil(day);
    let months = |count: i64| {
        let since = (year - FIRST_YEAR) * 12 + month - 1;
        days_of(FIRST_YEAR, since.div_euclid(count) * count + 1, 1)
    };
    match unit {
        Unit::Week => {
            // 1970 began on a Thursday; its first Monday is the fifth day.
            let days = count.saturating_mul(7);
            (day - 4).div_euclid(days) * days + 4
        }
        Unit::Month => months(count),
        Unit::Quarter => months(count.saturating_mul(3)),
        Unit::Year => days_of(year.div_euclid(count) * count, 1, 1),
        _ => day.div_euclid(count) * count,
    }
}

pub(crate) fn add_months(day: i64, months: i64) -> i64 {
    let (year, month, of_month) = civil(day);
    let month = month.saturating_add(months.clamp(-1_000_000, 1_000_000));
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    days_of(year, month, of_month.min(days_of_month(year, month)))
}

/// Adds a count of days, weeks, months, quarters or years to a day.
pub(crate) fn add_to_day(day: i64, count: i64, unit: Unit) -> i64 {
    match unit {
        Unit::Week => day.saturating_add(count.saturating_mul(7)),
        Unit::Month => add_months(day, count),
        Unit::Quarter => add_months(day, count.saturating_mul(3)),
        Unit::Year => add_months(day, count.saturating_mul(12)),
        _ => day.saturating_add(count),
    }
}

/// Adds units to an instant: elapsed time for hours and shorter, local calendar days for longer.
pub(crate) fn add_to_instant(instant: i64, count: i64, unit: Unit, clock: &mut ZoneClock) -> i64 {
    if let Some(micros) = micros_of(unit) {
        let moved = instant.saturating_add(count.saturating_mul(micros));
        return moved.clamp(-INSTANT_MAX, INSTANT_MAX);
    }
    let local = clock.local(instant);
    let day = add_to_day(local.div_euclid(DAY), count, unit);
    clock.instant(day.saturating_mul(DAY).saturating_add(local.rem_euclid(DAY)))
}

/// Index of the unit that contains an instant; `dateDiff` subtracts two of them.
pub(crate) fn index_of(unit: Unit, instant: i64, clock: &mut ZoneClock) -> i64 {
    match unit {
        Unit::Second => instant.div_euclid(SECOND),
        Unit::Minute => instant.div_euclid(MINUTE),
        Unit::Hour => (instant + clock.offset(instant).rem_euclid(HOUR)).div_euclid(HOUR),
        _ => {
            let day = clock.day(instant);
            let (year, month, _) = civil(day);
            match unit {
                Unit::Week => (day + 3).div_euclid(7),
                Unit::Month => year * 12 + month - 1,
                Unit::Quarter => year * 4 + (month - 1) / 3,
                Unit::Year => year,
                _ => day,
            }
        }
    }
}

/// Whole elapsed units between two instants (`age`).
pub(crate) fn age(unit: Unit, from: i64, to: i64, clock: &mut ZoneClock) -> i64 {
    if let Some(micros) = micros_of(unit) {
        return (to - from) / micros;
    }
    let (from, to) = (clock.local(from), clock.local(to));
    match unit {
        Unit::Day => (to - from) / DAY,
        Unit::Week => (to - from) / (7 * DAY),
        _ => {
            let months = whole_months(from, to);
            match unit {
                Unit::Quarter => months / 3,
                Unit::Year => months / 12,
                _ => months,
            }
        }
    }
}

fn whole_months(from: i64, to: i64) -> i64 {
    let split = |local: i64| {
        let (year, month, day) = civil(local.div_euclid(DAY));
        (year * 12 + month, (day, local.rem_euclid(DAY)))
    };
    let ((from_month, from_rest), (to_month, to_rest)) = (split(from), split(to));
    let months = to_month - from_month;
    match months {
        1.. if to_rest < from_rest => months - 1,
        ..=-1 if to_rest > from_rest => months + 1,
        _ => months,
    }
}
