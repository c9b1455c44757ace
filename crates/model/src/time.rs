//! UTC timestamps with microseconds, and the clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(MICROS_PER_SECOND)))
    }

    /// ISO 8601: a date, or a date and a time; UTC unless it names its own offset.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let local: DateTime = text.parse().ok()?;
            Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
        })?;
        Some(Self(at.as_microsecond()))
    }

    /// Whole seconds from `earlier` to `self`, negative when `self` comes first.
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        (self.0 - earlier.0).div_euclid(MICROS_PER_SECOND)
    }
}

/// ISO 8601 with `Z`, and microseconds unless they are zero.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(MICROS_PER_SECOND);
        let micros = self.0.rem_euclid(MICROS_PER_SECOND);
        let at = jiff::Timestamp::from_second(seconds).map_err(|_| fmt::Error)?;
        let at = at.strftime("%Y-%m-%dT%H:%M:%S");
        match micros {
            0 => write!(f, "{at}Z"),
            _ => write!(f, "{at}.{micros:06}Z"),
        }
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether `name` is an IANA time zone, in its exact spelling.
pub fn is_time_zone(name: &str) -> bool {
    name != "Etc/Unknown"
        && jiff::tz::db().get(name).is_ok_and(|zone| zone.iana_name() == Some(name))
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "Datetime has wrong format. Use ISO 8601, as in 2024-03-01T10:00:00Z.",
            )
        })
    }
}

/// The only source of the current time. Tests freeze it and advance it by hand.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    pub const fn system() -> Self {
        Self(None)
    }

    pub fn at(now: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(now.0))))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(fixed) => Timestamp(fixed.load(Ordering::Relaxed)),
            #[allow(clippy::disallowed_methods, reason = "the only call of the system clock")]
            None => Timestamp(jiff::Timestamp::now().as_microsecond()),
        }
    }

    /// Advances a clock made by [`Clock::at`]; does nothing to the system clock.
    pub fn advance_seconds(&self, seconds: i64) {
        if let Some(fixed) = &self.0 {
            fixed.fetch_add(seconds.saturating_mul(MICROS_PER_SECOND), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zone_names_must_match_exactly() {
        for name in ["UTC", "America/New_York", "Asia/Kolkata", "US/Pacific"] {
            assert!(is_time_zone(name), "{name}");
        }
        for name in ["", "Mars/X", "utc", "+02:00", "Etc/Unknown", "../UTC", "Europe"] {
            assert!(!is_time_zone(name), "{name}");
        }
    }

    #[test]
    fn timestamp_displays_microseconds_unless_they_are_zero() {
        for (micros, expected) in [
            (1_709_287_200_123_456, "2024-03-01T10:00:00.123456Z"),
            (1_709_287_200_000_000, "2024-03-01T10:00:00Z"),
            (1_709_287_200_000_007, "2024-03-01T10:00:00.000007Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), expected);
        }
    }

    #[test]
    fn timestamp_parses_only_iso_dates_and_times() {
        for (text, expected) in [
            ("2024-03-01T10:00:00.123456Z", Some("2024-03-01T10:00:00.123456Z")),
            ("2024-03-01T12:00:00+02:00", Some("2024-03-01T10:00:00Z")),
            ("2024-03-01 10:00:00", Some("2024-03-01T10:00:00Z")),
            ("2024-03-01T10:00", Some("2024-03-01T10:00:00Z")),
            (" 2024-03-01 ", Some("2024-03-01T00:00:00Z")),
            ("2024-02-30", None),
            ("99999-01-01", None),
            ("yesterday", None),
            ("", None),
        ] {
            let read = Timestamp::parse(text).map(|at| at.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
