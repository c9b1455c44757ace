//! Instants, days and time zones. Instants are microseconds and days are days since 1970.

pub(crate) mod format;
pub(crate) mod parse;
pub(crate) mod strptime;
pub(crate) mod units;

use hogql::types::DateTimeType;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Disambiguation, TimeZone};

use crate::Context;

/// Beyond every calendar year; sums of two instants within it do not overflow.
pub(crate) const INSTANT_MAX: i64 = 1 << 61;

/// Bound on days: more than [`INSTANT_MAX`] has.
const DAY_MAX: i64 = 1 << 40;

/// The largest multiple of `step` that is at most `value`.
pub(crate) fn floor_to(value: i64, step: i64) -> i64 {
    value.saturating_sub(value.rem_euclid(step))
}

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// The zone in which values of this type are displayed and truncated.
pub(crate) fn zone_of(date_time: &DateTimeType, context: &Context) -> TimeZone {
    date_time.zone.as_deref().map_or_else(|| context.zone.clone(), zone_named)
}

/// The resolver has validated the name.
pub(crate) fn zone_named(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// Converts between instants and local times of a zone. Caches the current UTC offset and the range
/// it is valid in: consecutive rows rarely need another one.
#[derive(Clone, Debug)]
pub(crate) struct ZoneClock {
    zone: TimeZone,
    from: i64,
    to: i64,
    offset: i64,
}

impl ZoneClock {
    pub fn new(zone: &TimeZone) -> Self {
        Self { zone: zone.clone(), from: 0, to: 0, offset: 0 }
    }

    pub fn offset(&mut self, instant: i64) -> i64 {
        if (self.from..self.to).contains(&instant) {
            return self.offset;
        }
        let at = timestamp(instant);
        self.offset = i64::from(self.zone.to_offset(at).seconds()) * SECOND;
        let next = timestamp(instant.saturating_add(1));
        let before = self.zone.preceding(next).next();
        let after = self.zone.following(at).next();
        self.from = before.map_or(i64::MIN, |change| change.timestamp().as_microsecond());
        self.to = after.map_or(i64::MAX, |change| change.timestamp().as_microsecond());
        self.offset
    }

    /// Local time in microseconds since 1970-01-01 00:00 local.
    pub fn local(&mut self, instant: i64) -> i64 {
        instant.saturating_add(self.offset(instant))
    }

    /// The instant of a local time. An ambiguous time (DST overlap) is the earlier instant. A time in
    /// a DST gap is read with the offset after the gap, as in ClickHouse.
    pub fn instant(&mut self, local: i64) -> i64 {
        self.resolved(local, Disambiguation::Earlier)
    }

    fn resolved(&mut self, local: i64, gap: Disambiguation) -> i64 {
        let guess = local.saturating_sub(self.offset);
        let surely = self.from.saturating_add(DAY)..self.to.saturating_sub(DAY);
        if surely.contains(&guess) {
            return guess;
        }
        match self.zone.to_ambiguous_timestamp(civil_time(local)).disambiguate(gap) {
            Ok(at) => {
                let at = at.as_microsecond();
                self.offset(at);
                at
            }
            Err(_) => guess,
        }
    }

    pub fn day(&mut self, instant: i64) -> i64 {
        self.local(instant).div_euclid(DAY)
    }

    /// If midnight falls into a DST gap, the day starts at the end of the gap.
    pub fn start_of_day(&mut self, day: i64) -> i64 {
        self.resolved(day.saturating_mul(DAY), Disambiguation::Compatible)
    }
}

/// Clamps to the range of `Timestamp`.
fn timestamp(instant: i64) -> Timestamp {
    Timestamp::from_microsecond(instant).unwrap_or(if instant < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

fn civil_time(local: i64) -> DateTime {
    let (day, micros) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, day) = civil(day);
    let part = |unit: i64, of: i64| (micros / unit % of) as i8;
    let year = year.clamp(-9_999, 9_999) as i16;
    let nanos = (micros % SECOND * 1_000) as i32;
    DateTime::new(
        year,
        month as i8,
        day as i8,
        part(HOUR, 24),
        part(MINUTE, 60),
        part(SECOND, 60),
        nanos,
    )
    .unwrap_or_default()
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year, in eras of 400
/// years, which all have the same number of days.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.clamp(-DAY_MAX, DAY_MAX) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Days since 1970 of a date. Any month is valid, such as 13 for January of the next year.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(crate) fn days_of_month(year: i64, month: i64) -> i64 {
    days_of(year, month + 1, 1) - days_of(year, month, 1)
}

/// ISO weekday: Monday is 1, Sunday is 7.
pub(crate) fn weekday(day: i64) -> i64 {
    (day + 3).rem_euclid(7) + 1
}

/// ISO week-numbering year and week of a day.
pub(crate) fn iso_week(day: i64) -> (i64, i64) {
    // A week belongs to the year that has its Thursday.
    let thursday = day - weekday(day) + 4;
    let (year, ..) = civil(thursday);
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_dates_round_trip_for_a_thousand_years() {
        let mut expected = (1600, 1, 1);
        for day in days_of(1600, 1, 1)..days_of(2600, 1, 1) {
            assert_eq!(civil(day), expected);
            assert_eq!(days_of(expected.0, expected.1, expected.2), day);
            expected.2 += 1;
            if expected.2 > days_of_month(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
    }

    #[test]
    fn zone_clock_handles_dst_gaps_and_overlaps() {
        let zone = zone_named("Europe/Berlin");
        let mut clock = ZoneClock::new(&zone);
        // 2024-03-31 01:00 UTC: from 02:00 to 03:00.
        let jump = 1_711_846_800 * SECOND;
        assert_eq!(clock.offset(jump - 1), HOUR);
        assert_eq!(clock.offset(jump), 2 * HOUR);
        let local = jump + HOUR;
        assert_eq!(clock.instant(local + 30 * MINUTE), jump - 30 * MINUTE);
        // 2024-10-27 01:00 UTC: from 03:00 back to 02:00; 02:30 is ambiguous.
        let back = 1_729_990_800 * SECOND;
        assert_eq!(clock.instant(back + HOUR + 30 * MINUTE), back - 30 * MINUTE);
    }
}
