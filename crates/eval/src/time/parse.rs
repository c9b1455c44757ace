//! Parses instants and days in the many spellings that events contain.

use super::format::{month_named, weekday_named};
use super::{DAY, HOUR, MINUTE, SECOND, ZoneClock, civil, days_of, days_of_month};

/// Longer strings are not a time.
const STRING_BYTES_MAX: usize = 64;

/// Parses an instant, in microseconds since 1970. A string without a UTC offset is in the clock's
/// zone.
pub(crate) fn instant(text: &str, now: i64, clock: &mut ZoneClock) -> Option<i64> {
    let text = text.trim();
    if text.is_empty() || text.len() > STRING_BYTES_MAX {
        return None;
    }
    if let Some(instant) = unix(text) {
        return Some(instant);
    }
    let mut parts = Parts::default();
    parts.read(text)?;
    parts.instant(now, clock)
}

/// Parses the day as written and ignores a time that follows.
pub(crate) fn day(text: &str, clock: &mut ZoneClock) -> Option<i64> {
    let text = text.trim();
    let date = text.get(..10).filter(|date| {
        let bytes = date.as_bytes();
        bytes[4] == b'-' && bytes[7] == b'-'
    });
    if let Some(date) = date {
        let number = |range: std::ops::Range<usize>| digits(&date[range]);
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        return valid_day(year, month, day);
    }
    instant(text, 0, clock).map(|instant| clock.day(instant))
}

fn valid_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let fits = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
    fits.then(|| days_of(year, month, day))
}

fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Parses a Unix timestamp: seconds with an optional fraction, or milliseconds.
fn unix(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = digits(whole)?;
    match whole.len() {
        9 | 10 => {}
        13 if fraction.is_empty() => return Some(seconds * 1_000),
        _ => return None,
    }
    let micros = if fraction.is_empty() { 0 } else { fraction_micros(fraction)? };
    Some(seconds * SECOND + micros)
}

fn fraction_micros(text: &str) -> Option<i64> {
    digits(text)?;
    let six: String = text.chars().chain("000000".chars()).take(6).collect();
    six.parse().ok()
}

#[derive(Debug, Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Microseconds since midnight.
    time: Option<i64>,
    half: Option<Half>,
    offset: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

impl Parts {
    fn read(&mut self, text: &str) -> Option<()> {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                ' ' | ',' => 1,
                'T' | 't'
                    if self.day.is_some() && self.time.is_none() && begins_time(&rest[1..]) =>
                {
                    1
                }
                '0'..='9' => self.number(rest)?,
                '+' | '-' if self.time.is_some() && self.offset.is_none() => self.zone(rest)?,
                _ if first.is_ascii_alphabetic() => self.word(rest)?,
                _ => return None,
            };
            rest = &rest[length..];
        }
        Some(())
    }

    /// Consumes a piece that starts with a digit; returns its length.
    fn number(&mut self, text: &str) -> Option<usize> {
        let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number = digits(&text[..length])?;
        let next = text[length..].chars().next();
        match (length, next) {
            (1 | 2, Some(':')) if self.time.is_none() => self.clock(text),
            (1 | 2, Some('/' | '.' | '-')) if self.day.is_none() && self.month.is_none() => {
                self.day_first(text)
            }
            (4, Some('-' | '/' | '.')) if self.year.is_none() => self.year_first(text),
            (8, _) if self.year.is_none() => {
                self.set_date(number / 10_000, number / 100 % 100, number % 100)?;
                Some(length)
            }
            (14, _) if self.year.is_none() => {
                let (date, time) = (number / 1_000_000, number % 1_000_000);
                self.set_date(date / 10_000, date / 100 % 100, date % 100)?;
                self.set_time(time / 10_000, time / 100 % 100, time % 100)?;
                Some(length)
            }
            (6, _) if self.day.is_some() && self.time.is_none() => {
                self.set_time(number / 10_000, number / 100 % 100, number % 100)?;
                Some(length)
            }
            (1 | 2, _) if self.day.is_some() && self.year.is_some() && self.time.is_none() => {
                self.set_time(number, 0, 0)?;
                Some(length)
            }
            (4, _) if self.year.is_none() => {
                self.year = Some(number);
                Some(length)
            }
            (1 | 2, _) if self.day.is_none() => {
                self.day = Some(number);
                let suffix = text.get(length..length + 2);
                let ordinal = suffix.is_some_and(|two| {
                    ["st", "nd", "rd", "th"].iter().any(|c| two.eq_ignore_ascii_case(c))
                });
                Some(if ordinal { length + 2 } else { length })
            }
            _ => None,
        }
    }

    /// `10:00`, `10:00:00`, `10:00:00.123`
    fn clock(&mut self, text: &str) -> Option<usize> {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'))
            .unwrap_or(text.len());
        let (clock, fraction) = text[..end].split_once('.').unwrap_or((&text[..end], ""));
        let mut numbers = clock.split(':').map(digits);
        let (hour, minute) = (numbers.next()??, numbers.next()??);
        let second = match numbers.next() {
            Some(second) => second?,
            None => 0,
        };
        if numbers.next().is_some() {
            return None;
        }
        self.set_time(hour, minute, second)?;
        if !fraction.is_empty() {
            self.time = Some(self.time? + fraction_micros(fraction)?);
        }
        Some(end)
    }

    /// `2024-03-01`, `2024/3/1`, `2024-03`
    fn year_first(&mut self, text: &str) -> Option<usize> {
        let separator = text.as_bytes()[4] as char;
        let (month, length) = leading(&text[5..])?;
        let mut at = 5 + length;
        let mut day = None;
        if text[at..].starts_with(separator) {
            let (number, length) = leading(&text[at + 1..])?;
            day = Some(number);
            at += 1 + length;
        }
        self.set_date(digits(&text[..4])?, month, day.unwrap_or(1))?;
        Some(at)
    }

    /// `01/03/2024`, `1.3.2024`, `01-03-2024`, `01-Mar-2024`
    fn day_first(&mut self, text: &str) -> Option<usize> {
        let (day, length) = leading(text)?;
        let separator = text[length..].chars().next()?;
        let mut at = length + 1;
        let word = text[at..].find(|c: char| !c.is_ascii_alphabetic())?;
        let month = if word > 0 {
            let month = month_named(&text[at..at + word])?;
            at += word;
            month
        } else {
            let (month, length) = leading(&text[at..])?;
            at += length;
            month
        };
        let rest = text[at..].strip_prefix(separator)?;
        let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let year = match length {
            4 => digits(&rest[..4])?,
            2 => {
                // POSIX's rule for two-digit years.
                let short = digits(&rest[..2])?;
                if short < 69 { 2000 + short } else { 1900 + short }
            }
            _ => return None,
        };
        // If the second number is no month, the first one is (month-first order).
        let (month, day) = if month > 12 { (day, month) } else { (month, day) };
        self.set_date(year, month, day)?;
        Some(at + 1 + length)
    }

    fn word(&mut self, text: &str) -> Option<usize> {
        let length = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let word = &text[..length];
        match word.to_ascii_lowercase().as_str() {
            "z" | "utc" | "gmt" if self.time.is_some() || self.day.is_some() => {
                self.offset = Some(0);
            }
            "am" if self.time.is_some() => self.half = Some(Half::Morning),
            "pm" if self.time.is_some() => self.half = Some(Half::Afternoon),
            _ if self.month.is_none() && month_named(word).is_some() => {
                self.month = month_named(word);
            }
            _ if weekday_named(word).is_some() => {}
            _ => return None,
        }
        Some(length)
    }

    /// `+02:00`, `+0200`, `+02`
    fn zone(&mut self, text: &str) -> Option<usize> {
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let rest = &text[1..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':')).unwrap_or(rest.len());
        let number: String = rest[..end].chars().filter(|c| *c != ':').collect();
        let (hours, minutes) = match number.len() {
            2 => (digits(&number)?, 0),
            4 => (digits(&number[..2])?, digits(&number[2..])?),
            _ => return None,
        };
        if hours > 18 || minutes > 59 {
            return None;
        }
        self.offset = Some(sign * (hours * HOUR + minutes * MINUTE));
        Some(1 + end)
    }

    fn set_date(&mut self, year: i64, month: i64, day: i64) -> Option<()> {
        valid_day(year, month, day)?;
        (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        Some(())
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64) -> Option<()> {
        let fits = hour < 24 && minute < 60 && second < 60;
        self.time = fits.then(|| hour * HOUR + minute * MINUTE + second * SECOND);
        self.time.map(|_| ())
    }

    fn instant(&self, now: i64, clock: &mut ZoneClock) -> Option<i64> {
        // A year alone means January 1.
        let month = self.month.or(self.year.filter(|_| self.day.is_none()).map(|_| 1))?;
        let year = self.year.unwrap_or_else(|| civil(clock.day(now)).0);
        let day = valid_day(year, month, self.day.unwrap_or(1))?;
        let mut time = self.time.unwrap_or(0);
        if let Some(half) = self.half {
            let twelve = time % (12 * HOUR);
            if time >= 13 * HOUR {
                return None;
            }
            time = if half == Half::Afternoon { twelve + 12 * HOUR } else { twelve };
        }
        let local = day * DAY + time;
        Some(match self.offset {
            Some(offset) => local - offset,
            None => clock.instant(local),
        })
    }
}

/// The leading number of one or two digits, and its length.
fn leading(text: &str) -> Option<(i64, usize)> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if !(1..=2).contains(&length) {
        return None;
    }
    Some((digits(&text[..length])?, length))
}

fn begins_time(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}
