//! Dates in queries: ISO 8601, or relative to now, in a project's time zone.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan as _, Unit, Zoned};

use crate::Timestamp;

/// At most four digits, as upstream.
const COUNT_CHARS_MAX: usize = 4;

/// A project's time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Falls back to UTC. Names are validated when stored, so an unknown one means that the time zone
    /// database is older than the one that validated it.
    pub fn named(name: &str) -> Self {
        Self(TimeZone::get(name).unwrap_or(TimeZone::UTC))
    }

    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    fn local(&self, at: Timestamp) -> Option<Zoned> {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
        Some(at.to_zoned(self.0.clone()))
    }

    /// Start of the day `days_ago` days before now.
    pub fn midnight(&self, now: Timestamp, days_ago: i64) -> Option<Timestamp> {
        let day = self.local(now)?.checked_sub(days_ago.days()).ok()?;
        Some(stamp(&day.start_of_day().ok()?))
    }
}

fn stamp(at: &Zoned) -> Timestamp {
    Timestamp::from_micros(at.timestamp().as_microsecond())
}

/// Parses a date, a date with a time, or a date relative to now such as `-24h`, `-7d`, `dStart` and
/// `-1mEnd`. Without an offset it is in the project's zone.
pub fn parse_timestamp(text: &str, now: Timestamp, zone: &Zone) -> Option<Timestamp> {
    let text = text.trim();
    relative(text, now, zone).or_else(|| absolute(text, zone))
}

fn absolute(text: &str, zone: &Zone) -> Option<Timestamp> {
    // jiff also accepts a zone in brackets and other extensions of ISO 8601.
    if !text.starts_with(|first: char| first.is_ascii_digit()) || text.ends_with(']') {
        return None;
    }
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        Some(local.to_zoned(zone.0.clone()).ok()?.timestamp())
    })?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

/// Parses a date of an event in ISO 8601. Without an offset it is in the project's zone; a local time
/// that daylight saving skips or repeats is the earlier instant, as in ClickHouse.
pub(crate) fn stored(text: &str, zone: &Zone) -> Option<Timestamp> {
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        Some(zone.0.to_ambiguous_zoned(local).earlier().ok()?.timestamp())
    })?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

fn relative(text: &str, now: Timestamp, zone: &Zone) -> Option<Timestamp> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, rest) = text.split_at(digits);
    let mut rest = rest.chars();
    let unit = rest.next()?;
    let edge = rest.as_str();
    let count = match digits {
        0 if edge.is_empty() => return None,
        0 => 0,
        1..=COUNT_CHARS_MAX => count.parse().ok()?,
        _ => return None,
    };
    let (span, unit) = span(count, unit)?;
    let then = zone.local(now)?.checked_sub(span).ok()?;
    match edge {
        "" => Some(stamp(&then)),
        "Start" => Some(stamp(&start(&then, unit)?)),
        "End" => {
            let next = start(&then, unit)?.checked_add(one(unit)?).ok()?;
            Some(Timestamp::from_micros(stamp(&next).as_micros() - 1))
        }
        _ => None,
    }
}

fn span(count: i64, unit: char) -> Option<(Span, Unit)> {
    let span = Span::new();
    Some(match unit {
        's' => (span.try_seconds(count).ok()?, Unit::Second),
        'M' => (span.try_minutes(count).ok()?, Unit::Minute),
        'h' => (span.try_hours(count).ok()?, Unit::Hour),
        'd' => (span.try_days(count).ok()?, Unit::Day),
        'w' => (span.try_weeks(count).ok()?, Unit::Week),
        'm' => (span.try_months(count).ok()?, Unit::Month),
        'q' => (span.try_weeks(13 * count).ok()?, Unit::Week),
        'y' => (span.try_years(count).ok()?, Unit::Year),
        _ => return None,
    })
}

fn one(unit: Unit) -> Option<Span> {
    Some(match unit {
        Unit::Hour => 1.hour(),
        Unit::Day => 1.day(),
        Unit::Week => 1.week(),
        Unit::Month => 1.month(),
        Unit::Year => 1.year(),
        _ => return None,
    })
}

/// Start of the unit that contains `at`. Weeks start on Monday, as in ISO 8601.
fn start(at: &Zoned, unit: Unit) -> Option<Zoned> {
    let day = at.start_of_day().ok()?;
    match unit {
        Unit::Hour => at.with().minute(0).second(0).subsec_nanosecond(0).build().ok(),
        Unit::Day => Some(day),
        Unit::Week => {
            let days_in = i64::from(at.weekday().to_monday_zero_offset());
            day.checked_sub(days_in.days()).ok()
        }
        Unit::Month => at.first_of_month().ok()?.start_of_day().ok(),
        Unit::Year => at.first_of_year().ok()?.start_of_day().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_in_the_projects_time_zone() {
        // A Thursday, in New York still the day before.
        let now = Timestamp::parse("2024-03-14T02:30:15.5Z").unwrap();
        let zone = Zone::named("America/New_York");
        for (text, expected) in [
            ("2024-01-01", Some("2024-01-01T05:00:00Z")),
            ("2024-01-01T10:00:00", Some("2024-01-01T15:00:00Z")),
            ("2024-01-01T10:00:00+01:00", Some("2024-01-01T09:00:00Z")),
            ("2024-01-01T10:00:00.000001Z", Some("2024-01-01T10:00:00.000001Z")),
            ("-24h", Some("2024-03-13T02:30:15.500000Z")),
            ("24h", Some("2024-03-13T02:30:15.500000Z")),
            // Seven days across the switch to daylight saving time are an hour less.
            ("-7d", Some("2024-03-07T03:30:15.500000Z")),
            ("-30s", Some("2024-03-14T02:29:45.500000Z")),
            ("-1M", Some("2024-03-14T02:29:15.500000Z")),
            ("-1m", Some("2024-02-14T03:30:15.500000Z")),
            ("-1y", Some("2023-03-14T02:30:15.500000Z")),
            ("-1q", Some("2023-12-14T03:30:15.500000Z")),
            ("hStart", Some("2024-03-14T02:00:00Z")),
            ("dStart", Some("2024-03-13T04:00:00Z")),
            ("-1dStart", Some("2024-03-12T04:00:00Z")),
            ("-1dEnd", Some("2024-03-13T03:59:59.999999Z")),
            ("wStart", Some("2024-03-11T04:00:00Z")),
            ("mStart", Some("2024-03-01T05:00:00Z")),
            ("-1mEnd", Some("2024-03-01T04:59:59.999999Z")),
            ("yStart", Some("2024-01-01T05:00:00Z")),
            ("d", None),
            ("-d", None),
            ("-7x", None),
            ("-7dMiddle", None),
            ("-99999d", None),
            ("yesterday", None),
            ("2024-13-01", None),
            ("2024-01-01T00:00:00Z[UTC]", None),
            ("", None),
            ("-", None),
            ("ä", None),
        ] {
            let read = parse_timestamp(text, now, &zone).map(|at| at.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
