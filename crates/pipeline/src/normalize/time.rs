//! The event's timestamp: the client's clock, corrected for skew by `sent_at`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use model::Timestamp;
use model::WarningKind;
use model::event::{AcceptedEvent, RawTime, SentAt};

/// Timestamps further in the future than this are replaced by the receive time.
const FUTURE_SECONDS_MAX: i64 = 23 * 3_600;
/// 2021-01-01T00:00:00Z. A smaller `sent_at` in the query string is not in milliseconds, and ignored.
const SENT_AT_MILLIS_MIN: i64 = 1_609_459_200_000;
const MICROS_PER_MILLI: i64 = 1_000;
/// 9999-12-31T23:59:59Z, the last second of four-digit years.
const LAST_SECOND: i64 = 253_402_300_799;
/// 0000-01-01T00:00:00Z
const FIRST_SECOND: i64 = -62_167_219_200;

/// The event's timestamp, and a warning if the sent one was unusable.
pub(super) fn event_time(
    event: &AcceptedEvent<'_>,
    ignore_sent_at: bool,
) -> (Timestamp, Option<WarningKind>) {
    let now = event.received_at;
    if let Some(offset_ms) = event.offset_ms {
        return validated(
            now.as_micros().checked_sub(offset_ms.saturating_mul(MICROS_PER_MILLI)),
            now,
        );
    }
    let Some(raw) = &event.timestamp else { return (now, None) };
    let Some(timestamp) = read(raw) else {
        return (now, Some(WarningKind::IgnoredInvalidTimestamp));
    };
    let uncorrected =
        event.v1.as_ref().is_some_and(|v1| v1.options.disable_skew_correction == Some(true));
    if uncorrected {
        return (timestamp, None);
    }
    let sent_at = event.sent_at.as_ref().and_then(read_sent_at).filter(|_| !ignore_sent_at);
    match sent_at {
        None => validated(Some(timestamp.as_micros()), now),
        Some(sent_at) => {
            validated(timestamp.as_micros().checked_add(now.as_micros() - sent_at.as_micros()), now)
        }
    }
}

fn validated(micros: Option<i64>, now: Timestamp) -> (Timestamp, Option<WarningKind>) {
    let readable =
        |micros: &i64| (FIRST_SECOND..=LAST_SECOND).contains(&micros.div_euclid(1_000_000));
    match micros.filter(readable).map(Timestamp::from_micros) {
        None => (now, Some(WarningKind::IgnoredInvalidTimestamp)),
        Some(time) if time > now.plus_seconds(FUTURE_SECONDS_MAX) => {
            (now, Some(WarningKind::EventTimestampInFuture))
        }
        Some(time) => (time, None),
    }
}

fn read_sent_at(sent_at: &SentAt<'_>) -> Option<Timestamp> {
    match sent_at {
        SentAt::Text(text) => parse(text),
        SentAt::Millis(millis) => {
            (*millis >= SENT_AT_MILLIS_MIN).then(|| Timestamp::from_millis(*millis))
        }
    }
}

fn read(raw: &RawTime<'_>) -> Option<Timestamp> {
    match raw {
        RawTime::Text(text) => parse(text),
        RawTime::Number(number) => epoch(number.parse().ok()?),
        RawTime::Unreadable => None,
    }
}

/// Seconds or milliseconds since 1970, by magnitude.
fn epoch(number: f64) -> Option<Timestamp> {
    /// The year 5138 in seconds; 1973 in milliseconds.
    const MILLIS_FROM: f64 = 1e11;
    let micros = if number.abs() >= MILLIS_FROM { number * 1e3 } else { number * 1e6 };
    (micros.abs() < 9e18).then(|| Timestamp::from_micros(micros as i64))
}

/// Parses every timestamp format that SDKs and their users send; UTC without a zone.
pub fn parse(text: &str) -> Option<Timestamp> {
    parse_common(text.as_bytes()).or_else(|| parse_any(text.trim()))
}

/// Fast path: `2026-01-31T12:00:00Z` with or without a fraction, as nearly all SDKs send it.
fn parse_common(text: &[u8]) -> Option<Timestamp> {
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0, |all: i32, digit| {
            digit.is_ascii_digit().then(|| all * 10 + i32::from(digit - b'0'))
        })
    };
    let (start, rest) = text.split_first_chunk::<19>()?;
    let [y @ .., b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2] = start
    else {
        return None;
    };
    let two = |tens: &u8, ones: &u8| number(&[*tens, *ones])?.try_into().ok();
    let nanos = match rest {
        [b'Z'] => 0,
        [b'.', fraction @ .., b'Z'] if (1..=9).contains(&fraction.len()) => {
            number(fraction)? * 10_i32.pow(9 - fraction.len() as u32)
        }
        _ => return None,
    };
    let date = Date::new(number(y)? as i16, two(m1, m2)?, two(d1, d2)?).ok()?;
    let time = Time::new(two(h1, h2)?, two(n1, n2)?, two(s1, s2)?, nanos).ok()?;
    at_offset(date, time, 0)
}

fn parse_any(text: &str) -> Option<Timestamp> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.len() {
            10 => Some(Timestamp::from_micros(text.parse::<i64>().ok()? * 1_000_000)),
            13 => Some(Timestamp::from_millis(text.parse().ok()?)),
            _ => None,
        };
    }
    iso(text).or_else(|| {
        let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
        Some(Timestamp::from_micros(zoned.timestamp().as_microsecond()))
    })
}

fn iso(text: &str) -> Option<Timestamp> {
    let (date, rest) = date(text)?;
    let (time, offset_seconds) = match rest {
        "" => (Time::midnight(), 0),
        _ => clock(rest.strip_prefix(['T', 't', ' '])?)?,
    };
    at_offset(date, time, offset_seconds)
}

fn at_offset(date: Date, time: Time, offset_seconds: i64) -> Option<Timestamp> {
    let at = Offset::UTC.to_timestamp(DateTime::from_parts(date, time)).ok()?;
    Some(Timestamp::from_micros(at.as_microsecond() - offset_seconds * 1_000_000))
}

/// `YYYY-MM-DD`, `YYYY/MM/DD` or `MM/DD/YYYY`, and what follows it.
fn date(text: &str) -> Option<(Date, &str)> {
    let (head, rest) = text.split_at_checked(10)?;
    let bytes = head.as_bytes();
    let (year, month, day) = match (bytes[4], bytes[7], bytes[2], bytes[5]) {
        (b'-', b'-', ..) | (b'/', b'/', ..) => (&head[..4], &head[5..7], &head[8..]),
        (.., b'/', b'/') => (&head[6..], &head[..2], &head[3..5]),
        _ => return None,
    };
    let date = Date::new(number(year)?, number(month)?, number(day)?).ok()?;
    Some((date, rest))
}

/// `HH:MM[:SS[.f]]` with an optional zone; the zone in seconds east of UTC.
fn clock(text: &str) -> Option<(Time, i64)> {
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone_at);
    let mut parts = clock.trim_end().splitn(3, ':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let (second, nanos) = match parts.next() {
        None => (0, 0),
        Some(seconds) => match seconds.split_once(['.', ',']) {
            None => (number(seconds)?, 0),
            Some((whole, fraction)) => (number(whole)?, nanoseconds(fraction)?),
        },
    };
    // Unix time has no leap seconds.
    let second = if second == 60 { 59 } else { second };
    Some((Time::new(hour, minute, second, nanos).ok()?, utc_offset_seconds(zone)?))
}

fn nanoseconds(fraction: &str) -> Option<i32> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = &fraction[..fraction.len().min(9)];
    let scale = 10_i32.pow(u32::try_from(9 - digits.len()).ok()?);
    Some(digits.parse::<i32>().ok()? * scale)
}

fn utc_offset_seconds(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1) {
        None => return Some(0),
        Some(("Z" | "z", "")) => return Some(0),
        Some(("+", digits)) => (1, digits),
        Some(("-", digits)) => (-1, digits),
        Some(_) => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if digits.len() == 4 => digits.split_at(2),
        None => (digits, "0"),
    };
    let (hours, minutes): (i64, i64) = (number(hours)?, number(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // contract: ingestion 72-74, 76
    #[test]
    fn timestamp_parser_accepts_every_sdk_format() {
        for (text, expected) in [
            ("2025-09-17T14:05:04.805+03", "2025-09-17T11:05:04.805000Z"),
            ("2025-09-17T14:05:04.805+03:30", "2025-09-17T10:35:04.805000Z"),
            ("2025-09-17T14:05:04-0200", "2025-09-17T16:05:04Z"),
            ("2023-01-01 12:00:00", "2023-01-01T12:00:00Z"),
            ("2023-01-01 12:00", "2023-01-01T12:00:00Z"),
            ("2023-01-01T12:00:00.1234567Z", "2023-01-01T12:00:00.123456Z"),
            ("2023-01-01", "2023-01-01T00:00:00Z"),
            ("2023/01/02", "2023-01-02T00:00:00Z"),
            ("01/02/2023", "2023-01-02T00:00:00Z"),
            ("1672574400000", "2023-01-01T12:00:00Z"),
            ("1672574400", "2023-01-01T12:00:00Z"),
            ("2001-05-06T00:00:00Z", "2001-05-06T00:00:00Z"),
            ("Tue, 1 Jul 2003 10:52:37 +0200", "2003-07-01T08:52:37Z"),
        ] {
            let read = parse(text).map(|time| time.to_string());
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "garbage",
            "12000-01-01T00:00:00Z",
            "2023-13-01",
            "2023-01-01T25:00:00Z",
            "12345",
            "2023-01-01X10:00",
            "é023-01-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        /// The fast path agrees with the general parser.
        #[test]
        fn timestamp_fast_path_agrees_with_general_parser(
            (year, month, day) in (0..10_000u32, 0..14u32, 0..33u32),
            (hour, minute, second) in (0..26u32, 0..62u32, 0..62u32),
            fraction in prop_oneof!["", "\\.[0-9]{1,9}", "[.,][0-9]{0,11}"],
            zone in prop_oneof![4 => Just("Z"), 1 => prop::sample::select(vec!["z", "", "+01", "ZZ"])],
            between in prop_oneof![4 => Just("T"), 1 => prop::sample::select(vec!["t", " "])],
        ) {
            let text = format!(
                "{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
            );
            prop_assert_eq!(parse(&text), parse_any(&text), "{}", text);
        }
    }

    #[test]
    fn common_timestamps_take_the_fast_path() {
        for text in
            ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5Z", "2024-02-29T23:59:59.999999Z"]
        {
            assert!(parse_common(text.as_bytes()).is_some(), "{text}");
        }
    }
}
