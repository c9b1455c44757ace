//! Dates in filters and in property values.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};
use serde_json::Value;

use crate::Timestamp;

/// Bound of relative dates: upstream accepts up to four digits.
const COUNT_MAX: i64 = 9_999;
const MICROS_PER_SECOND: f64 = 1e6;
/// 9999-12-31T23:59:59Z; dates have four-digit years.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// A date in a filter, absolute or relative to now.
#[derive(Clone, Debug)]
pub(super) enum FilterDate {
    At(Timestamp),
    /// This long before now.
    Before(Span),
}

impl FilterDate {
    pub(super) fn parse(text: &str, zone: &TimeZone) -> Option<Self> {
        relative(text).map(Self::Before).or_else(|| absolute(text, zone).map(Self::At))
    }

    pub(super) fn at(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at),
            Self::Before(span) => {
                let now = jiff::Timestamp::from_microsecond(now.as_micros()).ok()?;
                let then: Zoned = now.to_zoned(zone.clone()).checked_sub(*span).ok()?;
                Some(Timestamp::from_micros(then.timestamp().as_microsecond()))
            }
        }
    }
}

/// `-7d` and `7d` both mean seven days ago.
fn relative(text: &str) -> Option<Span> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<i64>().ok().filter(|count| *count <= COUNT_MAX)?;
    let span = Span::new();
    match unit {
        "h" => span.try_hours(count),
        "d" => span.try_days(count),
        "w" => span.try_weeks(count),
        "m" => span.try_months(count),
        "y" => span.try_years(count),
        _ => return None,
    }
    .ok()
}

/// Accepts only the formats that all SDKs parse; jiff alone would accept more of ISO 8601.
fn absolute(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let is_date = bytes.len() >= 10
        && bytes[..10].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !is_date {
        return None;
    }
    let micros = if bytes.len() == 10 {
        let date: Date = text.parse().ok()?;
        date.to_zoned(zone.clone()).ok()?.timestamp()
    } else {
        if !matches!(bytes[10], b'T' | b't' | b' ') || text.ends_with(']') {
            return None;
        }
        match text.parse::<jiff::Timestamp>() {
            Ok(at) => at,
            Err(_) => text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok()?.timestamp(),
        }
    };
    Some(Timestamp::from_micros(micros.as_microsecond()))
}

/// A date in a property value: an absolute date, or seconds since 1970.
pub(super) fn of_property(value: &Value, zone: &TimeZone) -> Option<Timestamp> {
    match value {
        Value::Number(number) => number.as_f64().and_then(seconds),
        Value::String(text) => absolute(text, zone).or_else(|| text.parse().ok().and_then(seconds)),
        _ => None,
    }
}

fn seconds(seconds: f64) -> Option<Timestamp> {
    let in_range = seconds.abs() <= SECONDS_MAX;
    in_range.then(|| Timestamp::from_micros((seconds * MICROS_PER_SECOND) as i64))
}
