//! Date and time functions.

use std::sync::Arc;

use hogql::ast::Unit;
use hogql::types::Kind;
use jiff::tz::TimeZone;

use super::{CallSite, CompiledCall, call};
use crate::Context;
use crate::error::{Error, Result};
use crate::time::{
    DAY, HOUR, INSTANT_MAX, MINUTE, SECOND, ZoneClock, civil, days_of, days_of_month, floor_to,
    format, iso_week, strptime, units, weekday, zone_named, zone_of,
};

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    if let Some(compiled) = date_part(site)? {
        return Ok(Some(compiled));
    }
    let (now, zone) = (site.context.now, site.context.zone.clone());
    Ok(Some(match site.name {
        "now" => {
            site.args.clear();
            call(move |args| Ok(args.map_ints(|_| floor_to(now, SECOND))))
        }
        "today" => day_of_now(now, zone, 0),
        "yesterday" => day_of_now(now, zone, -1),
        "fromUnixTimestamp" => {
            let from = site.args[0].ty.clone();
            site.as_cast(from, false)?
        }
        "fromUnixTimestamp64Second" => from_unix(site, SECOND),
        "fromUnixTimestamp64Milli" => from_unix(site, 1_000),
        "fromUnixTimestamp64Micro" => from_unix(site, 1),
        "makeDate" => call(|args| {
            let parts: Vec<_> = (0..3).map(|no| args.ints(no)).collect();
            Ok(args.map_ints(|row| {
                let [year, month, day] = std::array::from_fn(|no| parts[no].at(row));
                day_or_first(year, month, day)
            }))
        }),
        "makeDateTime" => make_date_time(site),
        "toStartOfISOYear" => from_day(site, |day| {
            let fourth = days_of(iso_week(day).0, 1, 4);
            fourth + 1 - weekday(fourth)
        }),
        "toLastDayOfWeek" => {
            let monday = site.int(1).map_or(site.context.week_starts_monday, |mode| mode % 2 != 0);
            site.args.truncate(1);
            from_day(site, move |day| {
                day + if monday { 7 - weekday(day) } else { 6 - weekday(day) % 7 }
            })
        }
        "dateName" => date_name(site)?,
        "timeZoneOf" => {
            let name = reader(site, 0).zone.iana_name().unwrap_or("UTC").to_owned();
            let span = site.span;
            site.args.clear();
            call(move |args| args.map_strings(span, |_, out| out.push_str(&name)))
        }
        "toStartOfYear" => first_day(site, Unit::Year),
        "toStartOfQuarter" => first_day(site, Unit::Quarter),
        "toStartOfMonth" => first_day(site, Unit::Month),
        "toMonday" => first_day(site, Unit::Week),
        "toStartOfWeek" => {
            // Odd modes start weeks on Monday.
            let monday = site.int(1).map_or(site.context.week_starts_monday, |mode| mode % 2 != 0);
            site.args.truncate(1);
            if monday {
                first_day(site, Unit::Week)
            } else {
                from_day(site, |day| day - weekday(day) % 7)
            }
        }
        "toLastDayOfMonth" => from_day(site, |day| {
            let (year, month, _) = civil(day);
            days_of(year, month, days_of_month(year, month))
        }),
        "toStartOfDay" => date_time_of(zoned(site, 0, 1), |at, clock| {
            let day = clock.day(at);
            clock.start_of_day(day)
        }),
        "toStartOfHour" => within_day(site, HOUR),
        "toStartOfMinute" => within_day(site, MINUTE),
        "toStartOfSecond" => within_day(site, SECOND),
        "toStartOfFiveMinutes" => within_day(site, 5 * MINUTE),
        "toStartOfTenMinutes" => within_day(site, 10 * MINUTE),
        "toStartOfFifteenMinutes" => within_day(site, 15 * MINUTE),
        "timeSlot" => within_day(site, 30 * MINUTE),
        "dateTrunc" => {
            let unit = unit_of(site, 0)?;
            let reader = zoned(site, 1, 2);
            site.args = vec![site.args[1].clone()];
            match units::micros_of(unit) {
                Some(micros) => date_time_of(reader, move |at, clock| {
                    units::start_within_day(micros, at, clock)
                }),
                None if unit == Unit::Day => date_time_of(reader, |at, clock| {
                    let day = clock.day(at);
                    clock.start_of_day(day)
                }),
                None => part_of(reader, move |local| units::first_day(unit, local.div_euclid(DAY))),
            }
        }
        "toStartOfInterval" => start_of_interval(site)?,
        "dateDiff" | "age" => distance(site)?,
        "dateAdd" | "dateSub" => {
            let unit = unit_of(site, 0)?;
            site.args.remove(0);
            site.args.swap(0, 1);
            shift(site, unit, site.name == "dateSub")
        }
        "formatDateTime" => format_date_time(site)?,
        "parseDateTime" | "parseDateTimeOrZero" => parse_date_time(site)?,
        "toTimeZone" => {
            let from = site.args[0].ty.clone();
            site.as_cast(from, false)?
        }
        name => {
            if let Some(unit) = suffix(name, "toInterval") {
                let _: Unit = unit;
                return Ok(Some(call(|args| {
                    let counts = args.ints(0);
                    Ok(args.map_ints(|row| counts.at(row)))
                })));
            }
            match (suffix(name, "add"), suffix(name, "subtract")) {
                (Some(unit), _) => shift(site, unit, false),
                (_, Some(unit)) => shift(site, unit, true),
                _ => return Ok(None),
            }
        }
    }))
}

fn suffix(name: &str, prefix: &str) -> Option<Unit> {
    name.strip_prefix(prefix).and_then(Unit::parse)
}

fn unit_of(site: &CallSite, no: usize) -> Result<Unit> {
    let unit = site.string(no).as_deref().and_then(Unit::parse);
    unit.ok_or_else(|| site.invalid("Expected a unit of time"))
}

/// Interprets an argument's values: days, or instants in a zone.
#[derive(Clone, Debug)]
struct Reader {
    days: bool,
    zone: TimeZone,
}

impl Reader {
    fn of(kind: &Kind, context: &Context) -> Self {
        match kind {
            Kind::DateTime(date_time) => Self { days: false, zone: zone_of(date_time, context) },
            _ => Self { days: true, zone: context.zone.clone() },
        }
    }

    fn clock(&self) -> ZoneClock {
        ZoneClock::new(&self.zone)
    }

    fn local(&self, value: i64, clock: &mut ZoneClock) -> i64 {
        let local = if self.days { value.saturating_mul(DAY) } else { clock.local(value) };
        local.clamp(-INSTANT_MAX, INSTANT_MAX)
    }

    fn day(&self, value: i64, clock: &mut ZoneClock) -> i64 {
        if self.days { value } else { clock.day(value) }
    }

    fn instant(&self, value: i64, clock: &mut ZoneClock) -> i64 {
        let instant = if self.days { clock.start_of_day(value) } else { value };
        instant.clamp(-INSTANT_MAX, INSTANT_MAX)
    }
}

fn reader(site: &CallSite, no: usize) -> Reader {
    Reader::of(site.kind(no), site.context)
}

/// As [`reader`], in the zone that another argument names.
fn zoned(site: &CallSite, no: usize, zone: usize) -> Reader {
    let mut reader = reader(site, no);
    if let Some(zone) = site.string(zone) {
        reader.zone = zone_named(&zone);
    }
    reader
}

/// A function of local microseconds.
fn part(site: &CallSite, f: impl Fn(i64) -> i64 + Send + Sync + 'static) -> CompiledCall {
    part_of(reader(site, 0), f)
}

fn part_of(reader: Reader, f: impl Fn(i64) -> i64 + Send + Sync + 'static) -> CompiledCall {
    call(move |args| {
        let (values, mut clock) = (args.ints(0), reader.clock());
        Ok(args.map_ints(|row| f(reader.local(values.at(row), &mut clock))))
    })
}

fn from_day(site: &CallSite, f: impl Fn(i64) -> i64 + Send + Sync + 'static) -> CompiledCall {
    part(site, move |local| f(local.div_euclid(DAY)))
}

fn first_day(site: &CallSite, unit: Unit) -> CompiledCall {
    from_day(site, move |day| units::first_day(unit, day))
}

/// A function from instant to instant.
fn date_time(
    site: &CallSite,
    f: impl Fn(i64, &mut ZoneClock) -> i64 + Send + Sync + 'static,
) -> CompiledCall {
    date_time_of(reader(site, 0), f)
}

fn date_time_of(
    reader: Reader,
    f: impl Fn(i64, &mut ZoneClock) -> i64 + Send + Sync + 'static,
) -> CompiledCall {
    call(move |args| {
        let (values, mut clock) = (args.ints(0), reader.clock());
        Ok(args.map_ints(|row| {
            let at = reader.instant(values.at(row), &mut clock);
            f(at, &mut clock)
        }))
    })
}

fn from_unix(site: &mut CallSite, micros: i64) -> CompiledCall {
    site.args.truncate(1);
    call(move |args| {
        let values = args.ints(0);
        Ok(args
            .map_ints(|row| values.at(row).saturating_mul(micros).clamp(-INSTANT_MAX, INSTANT_MAX)))
    })
}

/// The day, or the first day of 1970 if there is no such day, as in ClickHouse.
fn day_or_first(year: i64, month: i64, day: i64) -> i64 {
    let exists = (1970..=2149).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day);
    if exists { days_of(year, month, day) } else { 0 }
}

fn make_date_time(site: &mut CallSite) -> CompiledCall {
    let zone = match &site.ty.kind {
        Kind::DateTime(moment) => zone_of(moment, site.context),
        _ => site.context.zone.clone(),
    };
    site.args.truncate(6);
    call(move |args| {
        let parts: Vec<_> = (0..6).map(|no| args.ints(no)).collect();
        let mut clock = ZoneClock::new(&zone);
        Ok(args.map_ints(|row| {
            let [year, month, day, hour, minute, second] =
                std::array::from_fn(|no| parts[no].at(row));
            let whole =
                (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
            let day = day_or_first(year, month, day);
            if !whole || (day == 0 && (year, month) != (1970, 1)) {
                return 0;
            }
            clock.instant(day * DAY + hour * HOUR + minute * MINUTE + second * SECOND)
        }))
    })
}

/// The week of a day in one of MySQL's modes, and the year that the week belongs to.
fn week(day: i64, mode: i64) -> (i64, i64) {
    let monday = mode & 1 != 0;
    let long = mode & 2 != 0;
    // In the other modes the first week is the first with four days in the year.
    let first_with_start = (mode & 4 != 0) == monday;
    let of_week = |day: i64| if monday { weekday(day) - 1 } else { weekday(day) % 7 };
    let first_of = |year: i64| {
        let new_year = days_of(year, 1, 1);
        let into = of_week(new_year);
        let next = if first_with_start { into > 0 } else { into > 3 };
        new_year - into + if next { 7 } else { 0 }
    };
    let year = civil(day).0;
    let first = first_of(year);
    if day < first {
        if !long {
            return (year, 0);
        }
        return (year - 1, (day - first_of(year - 1)).div_euclid(7) + 1);
    }
    if long && day >= first_of(year + 1) {
        return (year + 1, 1);
    }
    (year, (day - first).div_euclid(7) + 1)
}

/// The name of a part of a time: a number, or the name of a month or day.
fn date_name(site: &mut CallSite) -> Result<CompiledCall> {
    const DAYS: [&str; 7] =
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let part = site.string(0).unwrap_or_default().to_ascii_lowercase();
    let known = [
        "year",
        "quarter",
        "month",
        "dayofyear",
        "day",
        "week",
        "weekday",
        "hour",
        "minute",
        "second",
    ];
    let Some(part) = known.into_iter().find(|name| *name == part) else {
        return Err(site.invalid(format!("dateName takes one of {}", known.join(", "))));
    };
    let (reader, span) = (zoned(site, 1, 2), site.span);
    site.args = vec![site.args[1].clone()];
    Ok(call(move |args| {
        let (values, mut clock) = (args.ints(0), reader.clock());
        args.map_strings(span, |row, out| {
            let local = reader.local(values.at(row), &mut clock);
            let day = local.div_euclid(DAY);
            let (year, month, of_month) = civil(day);
            let number = match part {
                "month" => return out.push_str(format::month_name(month)),
                "weekday" => return out.push_str(DAYS[(weekday(day) - 1) as usize]),
                "year" => year,
                "quarter" => (month - 1) / 3 + 1,
                "dayofyear" => day - days_of(year, 1, 1) + 1,
                "week" => iso_week(day).1,
                "hour" => local.rem_euclid(DAY) / HOUR,
                "minute" => local.rem_euclid(HOUR) / MINUTE,
                "second" => local.rem_euclid(MINUTE) / SECOND,
                _ => of_month,
            };
            crate::values::format::push(out, format_args!("{number}"));
        })
    }))
}

/// Days between Modified Julian Day 0 and 1970.
const JULIAN_OFFSET: i64 = 40_587;

fn within_day(site: &CallSite, unit: i64) -> CompiledCall {
    date_time(site, move |at, clock| units::start_within_day(unit, at, clock))
}

fn day_of_now(now: i64, zone: TimeZone, days: i64) -> CompiledCall {
    call(move |args| {
        let mut clock = ZoneClock::new(&zone);
        Ok(args.map_ints(|_| clock.day(now) + days))
    })
}

fn date_part(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    Ok(Some(match site.name {
        "toYear" => from_day(site, |day| civil(day).0),
        "toQuarter" => from_day(site, |day| (civil(day).1 - 1) / 3 + 1),
        "toMonth" => from_day(site, |day| civil(day).1),
        "toDayOfYear" => from_day(site, |day| day - days_of(civil(day).0, 1, 1) + 1),
        "toDayOfMonth" => from_day(site, |day| civil(day).2),
        "toDayOfWeek" => {
            let (mode, reader) = (site.int(1).unwrap_or(0), zoned(site, 0, 2));
            site.args.truncate(1);
            part_of(reader, move |local| {
                let day = weekday(local.div_euclid(DAY));
                match mode & 3 {
                    0 => day,
                    1 => day - 1,
                    2 => day % 7,
                    _ => day % 7 + 1,
                }
            })
        }
        "toWeek" | "toYearWeek" => {
            let with_year = site.name == "toYearWeek";
            let (mode, reader) = (site.int(1).unwrap_or(0), zoned(site, 0, 2));
            site.args.truncate(1);
            part_of(reader, move |local| {
                let day = local.div_euclid(DAY);
                if with_year {
                    // A week belongs to one year only.
                    let (year, week) = week(day, mode | 2);
                    return year * 100 + week;
                }
                week(day, mode).1
            })
        }
        "toMillisecond" => part(site, |local| local.rem_euclid(SECOND) / 1_000),
        "toISOYear" => from_day(site, |day| iso_week(day).0),
        "toModifiedJulianDay" => from_day(site, |day| day + JULIAN_OFFSET),
        "toYYYYMMDDhhmmss" => part(site, |local| {
            let (year, month, of_month) = civil(local.div_euclid(DAY));
            let time = local.rem_euclid(DAY);
            let clock = time / HOUR * 10_000 + time % HOUR / MINUTE * 100 + time % MINUTE / SECOND;
            (year * 10_000 + month * 100 + of_month) * 1_000_000 + clock
        }),
        "timeZoneOffset" => date_time(site, |at, clock| (clock.local(at) - at) / SECOND),
        "date_part" => {
            let unit = unit_of(site, 0)?;
            site.args.remove(0);
            part(site, move |local| {
                let day = local.div_euclid(DAY);
                match unit {
                    Unit::Second => local.rem_euclid(MINUTE) / SECOND,
                    Unit::Minute => local.rem_euclid(HOUR) / MINUTE,
                    Unit::Hour => local.rem_euclid(DAY) / HOUR,
                    Unit::Day => civil(day).2,
                    Unit::Week => iso_week(day).1,
                    Unit::Month => civil(day).1,
                    Unit::Quarter => (civil(day).1 - 1) / 3 + 1,
                    Unit::Year => civil(day).0,
                }
            })
        }
        "toHour" => part(site, |local| local.rem_euclid(DAY) / HOUR),
        "toMinute" => part(site, |local| local.rem_euclid(HOUR) / MINUTE),
        "toSecond" => part(site, |local| local.rem_euclid(MINUTE) / SECOND),
        "toISOWeek" => from_day(site, |day| iso_week(day).1),
        "toYYYYMM" => from_day(site, |day| {
            let (year, month, _) = civil(day);
            year * 100 + month
        }),
        "toYYYYMMDD" => from_day(site, |day| {
            let (year, month, of_month) = civil(day);
            year * 10_000 + month * 100 + of_month
        }),
        "toUnixTimestamp" => {
            let reader = zoned(site, 0, 1);
            site.args.truncate(1);
            date_time_of(reader, |at, _| at.div_euclid(SECOND))
        }
        "toUnixTimestamp64Second" => date_time(site, |at, _| at.div_euclid(SECOND)),
        "toUnixTimestamp64Milli" => date_time(site, |at, _| at.div_euclid(1_000)),
        "toUnixTimestamp64Micro" => date_time(site, |at, _| at),
        "monthName" => {
            let (reader, span) = (reader(site, 0), site.span);
            call(move |args| {
                let (values, mut clock) = (args.ints(0), reader.clock());
                args.map_strings(span, |row, out| {
                    let day = reader.day(values.at(row), &mut clock);
                    out.push_str(format::month_name(civil(day).1));
                })
            })
        }
        _ => return Ok(None),
    }))
}

fn start_of_interval(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let Kind::Interval(unit) = *site.kind(1) else {
        return Err(site.invalid("toStartOfInterval takes an interval"));
    };
    let (reader, to_day) = (zoned(site, 0, 2), site.ty.kind == Kind::Date);
    Ok(call(move |args| {
        let (values, counts, mut clock) = (args.ints(0), args.ints(1), reader.clock());
        args.try_ints(|row| {
            let (value, count) = (values.at(row), counts.at(row));
            if count <= 0 {
                return Err(Error::invalid("The interval must be longer than nothing", span));
            }
            if to_day {
                let day = reader.day(value, &mut clock);
                return Ok(Some(units::first_day_of_interval(count, unit, day)));
            }
            let at = reader.instant(value, &mut clock);
            Ok(Some(units::start_of_interval(count, unit, at, &mut clock)))
        })
    })
    .fallible())
}

fn distance(site: &mut CallSite) -> Result<CompiledCall> {
    let (unit, whole) = (unit_of(site, 0)?, site.name == "age");
    let (from_reader, to_reader) = (zoned(site, 1, 3), zoned(site, 2, 3));
    site.args = vec![site.args[1].clone(), site.args[2].clone()];
    Ok(call(move |args| {
        let (from, to) = (args.ints(0), args.ints(1));
        let (mut from_clock, mut to_clock) = (from_reader.clock(), to_reader.clock());
        Ok(args.map_ints(|row| {
            let from = from_reader.instant(from.at(row), &mut from_clock);
            let to = to_reader.instant(to.at(row), &mut to_clock);
            if whole {
                return units::age(unit, from, to, &mut from_clock);
            }
            units::index_of(unit, to, &mut to_clock) - units::index_of(unit, from, &mut from_clock)
        }))
    }))
}

/// Adds the second argument, a count of units, to the first, a time.
fn shift(site: &mut CallSite, unit: Unit, back: bool) -> CompiledCall {
    let (reader, to_day) = (reader(site, 0), site.ty.kind == Kind::Date);
    call(move |args| {
        let (values, counts, mut clock) = (args.ints(0), args.ints(1), reader.clock());
        Ok(args.map_ints(|row| {
            let count = counts.at(row);
            let count = if back { count.saturating_neg() } else { count };
            if to_day {
                return units::add_to_day(values.at(row), count, unit);
            }
            let at = reader.instant(values.at(row), &mut clock);
            units::add_to_instant(at, count, unit, &mut clock)
        }))
    })
}

/// `+` and `-` of a time and an interval or a number of days or seconds; or the difference of two
/// times.
pub(super) fn shift_by_operator(site: &mut CallSite) -> Result<CompiledCall> {
    let back = site.name == "minus";
    if site.args.iter().all(|arg| arg.ty.kind.is_time()) {
        let days = site.args.iter().all(|arg| arg.ty.kind == Kind::Date);
        let (left, right) = (reader(site, 0), reader(site, 1));
        return Ok(call(move |args| {
            let (a, b) = (args.ints(0), args.ints(1));
            let (mut left_clock, mut right_clock) = (left.clock(), right.clock());
            Ok(args.map_ints(|row| {
                if days {
                    return a.at(row).wrapping_sub(b.at(row));
                }
                let a = left.instant(a.at(row), &mut left_clock).div_euclid(SECOND);
                a - right.instant(b.at(row), &mut right_clock).div_euclid(SECOND)
            }))
        }));
    }
    if !site.kind(0).is_time() {
        site.args.swap(0, 1);
    }
    let unit = match (site.kind(1), site.kind(0)) {
        (Kind::Interval(unit), _) => *unit,
        (_, Kind::Date) => Unit::Day,
        _ => Unit::Second,
    };
    Ok(shift(site, unit, back))
}

fn format_date_time(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let pattern = site.string(1).unwrap_or_default();
    let pieces = format::pieces(&pattern)
        .map_err(|letter| site.invalid(format!("Unknown letter '%{letter}' of formatDateTime")))?;
    let mut reader = reader(site, 0);
    if let Some(zone) = site.string(2) {
        reader.zone = zone_named(&zone);
    }
    let precision = match site.kind(0) {
        Kind::DateTime(date_time) => date_time.precision,
        _ => 0,
    };
    site.args.truncate(1);
    let pieces: Arc<[format::Piece]> = pieces.into();
    Ok(call(move |args| {
        let (values, mut clock) = (args.ints(0), reader.clock());
        args.map_strings(span, |row, out| {
            let at = reader.instant(values.at(row), &mut clock);
            format::formatted(&pieces, at, precision, &mut clock, out);
        })
    }))
}

/// The format of `parseDateTime` without one, as in ClickHouse.
const PARSED_FORMAT: &str = "%Y-%m-%d %H:%i:%s";

fn parse_date_time(site: &mut CallSite) -> Result<CompiledCall> {
    let name = site.name;
    let format = site.string(1).unwrap_or_else(|| PARSED_FORMAT.to_owned());
    let unknown = |letter: char| site.invalid(format!("Unknown letter '%{letter}' of {name}"));
    let pieces = format::pieces(&format).map_err(unknown)?;
    let unread = pieces.iter().find_map(|piece| match piece {
        format::Piece::Field(field) if !strptime::is_readable(*field) => Some(*field),
        _ => None,
    });
    if let Some(letter) = unread {
        return Err(unknown(letter));
    }
    let zone = match &site.ty.kind {
        Kind::DateTime(moment) => zone_of(moment, site.context),
        _ => site.context.zone.clone(),
    };
    site.cast(0, &Kind::String)?;
    site.args.truncate(1);
    let or_zero = name == "parseDateTimeOrZero";
    Ok(call(move |args| {
        let (texts, mut clock) = (args.strings(0), ZoneClock::new(&zone));
        args.try_ints(|row| {
            let read = strptime::instant(&pieces, texts.at(row), &mut clock);
            Ok(if or_zero { Some(read.unwrap_or(0)) } else { read })
        })
    }))
}
