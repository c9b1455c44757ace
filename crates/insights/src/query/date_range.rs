//! Resolves the date range of a query to timestamps and buckets.

use facts::{QueryContext, Zone, parse_timestamp};
use jiff::{Span, ToSpan as _};
use model::Timestamp;

use crate::query::calendar::{Buckets, Calendar, Interval};
use crate::query::spec::{CompareFilter, DateRange};
use crate::{Error, Result};

/// Without `date_from` the range starts this many days before now.
const DAYS: i64 = 7;

/// A resolved date range: `from` and `to` are inclusive, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Period {
    pub from: i64,
    pub to: i64,
    pub buckets: Buckets,
}

/// Resolves dates against the current time and the project's time zone.
#[derive(Clone, Debug)]
pub(crate) struct DateResolver {
    pub calendar: Calendar,
    pub now: Timestamp,
    zone: Zone,
    /// Timestamp of the project's first event, for `all`.
    earliest: Option<i64>,
}

impl DateResolver {
    pub fn new(context: &QueryContext) -> Self {
        let zone = context.zone.clone();
        let calendar = Calendar {
            zone: zone.time_zone().clone(),
            week_starts_monday: context.week_starts_monday,
        };
        let earliest = context.earliest.map(Timestamp::as_micros);
        Self { calendar, now: context.now, zone, earliest }
    }

    /// Parses a date; a string that is not a date means now.
    pub fn timestamp(&self, text: &str) -> i64 {
        parse_timestamp(text, self.now, &self.zone).unwrap_or(self.now).as_micros()
    }

    pub fn period(&self, range: &DateRange, interval: Interval) -> Result<Period> {
        let from = self.from(range, interval)?;
        self.between(from, self.to(range, interval)?, interval)
    }

    fn between(&self, from: i64, to: i64, interval: Interval) -> Result<Period> {
        Ok(Period { from, to, buckets: self.calendar.buckets(from, to, interval)? })
    }

    fn from(&self, range: &DateRange, interval: Interval) -> Result<i64> {
        let text = range.date_from.as_deref().unwrap_or_default();
        let from = match text {
            "" => self.calendar.plus(self.now.as_micros(), Interval::Day, -DAYS)?,
            "all" => match self.earliest {
                Some(earliest) => earliest,
                None => self.calendar.plus(self.now.as_micros(), Interval::Day, -DAYS)?,
            },
            text => self.timestamp(text),
        };
        let by_the_hour = relative(text).is_some_and(|(_, unit)| unit == 'h')
            && matches!(interval, Interval::Hour | Interval::Day);
        if by_the_hour || (range.explicit_date == Some(true) && !is_date(text) && text != "all") {
            return Ok(from);
        }
        self.calendar.start(from, interval)
    }

    fn to(&self, range: &DateRange, interval: Interval) -> Result<i64> {
        let text = range.date_to.as_deref().unwrap_or_default();
        let to = if text.is_empty() { self.now.as_micros() } else { self.timestamp(text) };
        if range.explicit_date == Some(true) {
            return Ok(to);
        }
        match interval {
            // A date without a time means the whole day.
            Interval::Hour | Interval::Minute | Interval::Second if is_date(text) => {
                self.calendar.end(to, Interval::Day)
            }
            Interval::Hour if !starts_as_date(text) => self.calendar.end(to, Interval::Hour),
            Interval::Hour | Interval::Minute | Interval::Second => Ok(to),
            _ => self.calendar.end(to, Interval::Day),
        }
    }

    /// The period to compare with; none if the query compares none.
    pub fn previous(
        &self,
        period: &Period,
        range: &DateRange,
        compare: &CompareFilter,
    ) -> Result<Option<Period>> {
        if !compare.compare || range.date_from.as_deref() == Some("all") {
            return Ok(None);
        }
        let interval = period.buckets.interval;
        let span = match compare.compare_to.as_deref().filter(|text| !text.is_empty()) {
            Some(text) => {
                let (count, unit) = relative(text)
                    .ok_or_else(|| Error::invalid(format!("'{text}' is no span such as -1w.")))?;
                back(count, unit)?
            }
            None => self.length(period, range)?,
        };
        let from = self.calendar.shift(period.from, span)?;
        let to = self.calendar.shift(period.to, span)?;
        self.between(from, to, interval).map(Some)
    }

    /// How far the previous period lies back: as many intervals as the period has. A range of whole
    /// weeks that ends today goes back by weeks, so that weekdays align.
    fn length(&self, period: &Period, range: &DateRange) -> Result<Span> {
        let units = period.buckets.len() as i64;
        let open = range.date_to.as_deref().unwrap_or_default().is_empty();
        let days = relative(range.date_from.as_deref().unwrap_or("-7d"));
        Ok(match (period.buckets.interval, days) {
            (Interval::Day, Some((days, 'd'))) if open && days > 0 && days % 7 == 0 => {
                (-days).days()
            }
            (Interval::Day, _) => (-units).days(),
            (Interval::Week, _) => (-units).weeks(),
            (Interval::Month, _) => (-units).months(),
            (Interval::Hour, _) => (-units).hours(),
            (Interval::Minute, _) => (-units).minutes(),
            (Interval::Second, _) => (-units).seconds(),
        })
    }
}

fn is_date(text: &str) -> bool {
    text.trim().parse::<jiff::civil::Date>().is_ok() && !text.contains(['T', ' ', ':'])
}

fn starts_as_date(text: &str) -> bool {
    relative(text).is_none()
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.contains('-')
}

/// At most four digits, as in [`facts::parse_timestamp`].
const COUNT_CHARS_MAX: usize = 4;

/// Parses a relative date such as `-7d` to its count and unit.
fn relative(text: &str) -> Option<(i64, char)> {
    let text = text.trim();
    let text = text.strip_prefix('-').unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > COUNT_CHARS_MAX {
        return None;
    }
    let mut unit = text[digits..].chars();
    let (count, unit, rest) = (text[..digits].parse().ok()?, unit.next()?, unit.as_str());
    (rest.is_empty() && "sMhdwmqy".contains(unit)).then_some((count, unit))
}

fn back(count: i64, unit: char) -> Result<Span> {
    let span = Span::new();
    let span = match unit {
        's' => span.try_seconds(-count),
        'M' => span.try_minutes(-count),
        'h' => span.try_hours(-count),
        'd' => span.try_days(-count),
        'w' => span.try_weeks(-count),
        'm' => span.try_months(-count),
        'q' => span.try_weeks(count.saturating_mul(-13)),
        _ => span.try_years(-count),
    };
    span.map_err(|_| Error::invalid("The dates are out of range."))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn dates(now: &str, zone: &str) -> DateResolver {
        let earliest = Timestamp::parse("2023-12-24T10:00:00Z").map(Timestamp::as_micros);
        DateResolver {
            calendar: Calendar { zone: TimeZone::get(zone).unwrap(), week_starts_monday: false },
            now: Timestamp::parse(now).unwrap(),
            zone: Zone::named(zone),
            earliest,
        }
    }

    fn range(from: &str, to: &str) -> DateRange {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        DateRange { date_from: given(from), date_to: given(to), explicit_date: None }
    }

    fn text(period: &Period, dates: &DateResolver) -> String {
        let (from, to) = (dates.calendar.iso(period.from), dates.calendar.iso(period.to));
        format!("{} {} {}", from.unwrap(), to.unwrap(), period.buckets.len())
    }

    // contract: query 65, 68-70
    #[test]
    fn dates_become_whole_units() {
        let dates = dates("2024-01-10T14:30:15Z", "UTC");
        use Interval::{Day, Hour, Minute, Month, Second, Week};
        for (from, to, interval, expected) in [
            ("", "", Day, "2024-01-03T00:00:00Z 2024-01-10T23:59:59.999999Z 8"),
            ("-7d", "", Day, "2024-01-03T00:00:00Z 2024-01-10T23:59:59.999999Z 8"),
            ("nonsense", "", Day, "2024-01-10T00:00:00Z 2024-01-10T23:59:59.999999Z 1"),
            ("2024-01-01", "2024-01-03", Day, "2024-01-01T00:00:00Z 2024-01-03T23:59:59.999999Z 3"),
            (
                "2024-01-01",
                "2024-01-01",
                Hour,
                "2024-01-01T00:00:00Z 2024-01-01T23:59:59.999999Z 24",
            ),
            ("dStart", "", Hour, "2024-01-10T00:00:00Z 2024-01-10T14:59:59.999999Z 15"),
            ("-24h", "", Hour, "2024-01-09T14:30:15Z 2024-01-10T14:59:59.999999Z 25"),
            ("-24h", "", Day, "2024-01-09T14:30:15Z 2024-01-10T23:59:59.999999Z 2"),
            ("-1h", "", Minute, "2024-01-10T13:30:00Z 2024-01-10T14:30:15Z 61"),
            ("-1M", "", Second, "2024-01-10T14:29:15Z 2024-01-10T14:30:15Z 61"),
            (
                "2024-01-01",
                "2024-01-01T05:30:00",
                Hour,
                "2024-01-01T00:00:00Z 2024-01-01T05:30:00Z 6",
            ),
            ("all", "", Week, "2023-12-24T00:00:00Z 2024-01-10T23:59:59.999999Z 3"),
            ("all", "", Day, "2023-12-24T00:00:00Z 2024-01-10T23:59:59.999999Z 18"),
            ("-1mStart", "", Month, "2023-12-01T00:00:00Z 2024-01-10T23:59:59.999999Z 2"),
            ("2024-01-05", "2024-01-01", Day, "2024-01-05T00:00:00Z 2024-01-01T23:59:59.999999Z 0"),
        ] {
            let period = dates.period(&range(from, to), interval).unwrap();
            assert_eq!(text(&period, &dates), expected, "{from} {to}");
        }
        let exact = DateRange {
            explicit_date: Some(true),
            ..range("2024-01-01T10:00:00", "2024-01-01T12:00:00")
        };
        let period = dates.period(&exact, Day).unwrap();
        assert_eq!(text(&period, &dates), "2024-01-01T10:00:00Z 2024-01-01T12:00:00Z 1");
    }

    // contract: query 59, 60
    #[test]
    fn the_previous_period_has_as_many_units() {
        let dates = dates("2024-01-10T14:30:15Z", "UTC");
        use Interval::{Day, Hour, Week};
        for (from, to, interval, compare_to, expected) in [
            (
                "2024-01-01",
                "2024-01-03",
                Day,
                "",
                "2023-12-29T00:00:00Z 2023-12-31T23:59:59.999999Z 3",
            ),
            ("-7d", "", Day, "", "2023-12-27T00:00:00Z 2024-01-03T23:59:59.999999Z 8"),
            ("", "", Day, "", "2023-12-27T00:00:00Z 2024-01-03T23:59:59.999999Z 8"),
            ("-3d", "", Day, "", "2024-01-03T00:00:00Z 2024-01-06T23:59:59.999999Z 4"),
            ("-3d", "", Day, "-1w", "2023-12-31T00:00:00Z 2024-01-03T23:59:59.999999Z 4"),
            ("-14d", "", Week, "", "2023-12-03T00:00:00Z 2023-12-20T23:59:59.999999Z 3"),
            ("dStart", "", Hour, "-1d", "2024-01-09T00:00:00Z 2024-01-09T14:59:59.999999Z 15"),
        ] {
            let compare = CompareFilter {
                compare: true,
                compare_to: (!compare_to.is_empty()).then(|| compare_to.to_owned()),
            };
            let range = range(from, to);
            let period = dates.period(&range, interval).unwrap();
            let previous = dates.previous(&period, &range, &compare).unwrap().unwrap();
            assert_eq!(text(&previous, &dates), expected, "{from} {to} {compare_to}");
        }
        let compare = CompareFilter { compare: true, compare_to: Some("soon".into()) };
        let all = range("all", "");
        let period = dates.period(&all, Day).unwrap();
        assert!(dates.previous(&period, &all, &compare).unwrap().is_none());
        let compared = CompareFilter { compare: true, compare_to: None };
        let never = range("-77777777777d", "");
        let period_of_now = dates.period(&never, Day).unwrap();
        dates.previous(&period_of_now, &never, &compared).unwrap().unwrap();
        let week = range("-7d", "");
        assert!(matches!(dates.previous(&period, &week, &compare), Err(Error::Invalid(_))));
    }

    // contract: query 71
    #[test]
    fn date_ranges_use_the_projects_time_zone() {
        let dates = dates("2024-03-31T12:00:00Z", "Europe/Berlin");
        let period = dates.period(&range("-1d", ""), Interval::Hour).unwrap();
        let expected = "2024-03-30T14:00:00+01:00 2024-03-31T14:59:59.999999+02:00 24";
        assert_eq!(text(&period, &dates), expected);
        let period = dates.period(&range("-1d", ""), Interval::Day).unwrap();
        let expected = "2024-03-30T00:00:00+01:00 2024-03-31T23:59:59.999999+02:00 2";
        assert_eq!(text(&period, &dates), expected);
    }
}
