//! Parses times in a given format, as ClickHouse's `parseDateTime`: MySQL's specifiers.

use super::format::{Piece, is_weekday_named, month_named, weekday_named};
use super::{DAY, HOUR, MINUTE, SECOND, ZoneClock, days_of, days_of_month, weekday};

/// The year of a string that names a day without a year, and of one that names a time alone.
const YEAR_OF_DAY: i64 = 2000;
const YEAR_OF_TIME: i64 = 1970;

/// Two digits of a year from here on belong to the last century.
const LAST_CENTURY: i64 = 70;

/// Which parts name the day: the last ones that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Day {
    #[default]
    None,
    OfMonth,
    OfYear,
    OfWeek,
}

#[derive(Debug)]
struct Parts {
    year: Option<i64>,
    names: Day,
    month: i64,
    of_month: i64,
    of_year: i64,
    week: i64,
    of_week: i64,
    hour: i64,
    /// Hours count to twelve.
    is_half_day: bool,
    is_afternoon: bool,
    minute: i64,
    second: i64,
    offset: Option<i64>,
}

/// The instant, in microseconds since 1970, of a string that has exactly this format. One without a UTC
/// offset is in the clock's zone.
pub(crate) fn instant(pieces: &[Piece], text: &str, clock: &mut ZoneClock) -> Option<i64> {
    let mut parts = Parts {
        year: None,
        names: Day::None,
        month: 1,
        of_month: 1,
        of_year: 1,
        week: 1,
        of_week: 1,
        hour: 0,
        is_half_day: false,
        is_afternoon: false,
        minute: 0,
        second: 0,
        offset: None,
    };
    let mut rest = text;
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            Piece::Field(field) => parts.read(*field, &mut rest)?,
        }
    }
    if rest.is_empty() { parts.instant(clock) } else { None }
}

/// Whether a string can be read by this specifier.
pub(crate) fn is_readable(field: char) -> bool {
    field != 'Q'
}

/// Takes `least` to `most` digits.
fn digits(rest: &mut &str, least: usize, most: usize) -> Option<i64> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (number, after) = rest.split_at(count);
    *rest = after;
    number.parse().ok()
}

fn within(number: i64, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    range.contains(&number).then_some(number)
}

/// Takes the letters of a name.
fn letters<'t>(rest: &mut &'t str, most: usize) -> &'t str {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_alphabetic).count();
    let (name, after) = rest.split_at(count);
    *rest = after;
    name
}

fn literal(rest: &mut &str, wanted: char) -> Option<()> {
    *rest = rest.strip_prefix(wanted)?;
    Some(())
}

const ABBREVIATION: usize = 3;

impl Parts {
    fn read(&mut self, field: char, rest: &mut &str) -> Option<()> {
        match field {
            'Y' | 'G' => self.year = Some(digits(rest, 4, 4)?),
            'y' | 'g' => self.year = Some(full_year(digits(rest, 2, 2)?)),
            'C' => self.year = Some(digits(rest, 2, 2)? * 100),
            'm' => self.month(digits(rest, 2, 2)?)?,
            'c' => self.month(digits(rest, 1, 2)?)?,
            'b' => self.month(month_named(letters(rest, ABBREVIATION))?)?,
            'M' => self.month(month_named_in_full(letters(rest, usize::MAX))?)?,
            'd' => self.day(digits(rest, 2, 2)?)?,
            'e' => {
                // One digit may stand behind a space.
                *rest = rest.strip_prefix(' ').unwrap_or(rest);
                self.day(digits(rest, 1, 2)?)?;
            }
            'j' => {
                self.names = Day::OfYear;
                self.of_year = within(digits(rest, 3, 3)?, 1..=366)?;
            }
            'V' => self.of_week(|parts| {
                parts.week = within(digits(rest, 2, 2)?, 1..=53)?;
                Some(())
            })?,
            'u' => self.of_week(|parts| {
                parts.of_week = within(digits(rest, 1, 1)?, 1..=7)?;
                Some(())
            })?,
            'w' => self.of_week(|parts| {
                let day = within(digits(rest, 1, 1)?, 0..=6)?;
                parts.of_week = if day == 0 { 7 } else { day };
                Some(())
            })?,
            'a' => self.of_week(|parts| {
                parts.of_week = weekday_named(letters(rest, ABBREVIATION))?;
                Some(())
            })?,
            'W' | 'A' => self.of_week(|parts| {
                let name = letters(rest, usize::MAX);
                parts.of_week = weekday_named(name).filter(|_| is_weekday_named(name))?;
                Some(())
            })?,
            'H' => self.hour(digits(rest, 2, 2)?)?,
            'k' => self.hour(digits(rest, 1, 2)?)?,
            'h' | 'I' => self.half_day_hour(digits(rest, 2, 2)?)?,
            'l' => self.half_day_hour(digits(rest, 1, 2)?)?,
            'p' => {
                let half = letters(rest, 2);
                self.is_afternoon = half.eq_ignore_ascii_case("PM");
                if !self.is_afternoon && !half.eq_ignore_ascii_case("AM") {
                    return None;
                }
            }
            'i' => self.minute = within(digits(rest, 2, 2)?, 0..=59)?,
            's' | 'S' => self.second = within(digits(rest, 2, 2)?, 0..=59)?,
            // Seconds are whole.
            'f' => drop(digits(rest, 1, 6)?),
            'z' => {
                let sign = if rest.starts_with('-') { -1 } else { 1 };
                *rest = rest.strip_prefix(['+', '-'])?;
                let (hours, minutes) = (digits(rest, 2, 2)?, digits(rest, 2, 2)?);
                self.offset = Some(sign * (hours * HOUR + minutes * MINUTE));
            }
            'D' => {
                self.all(&['m', '/', 'd', '/'], rest)?;
                // As in ClickHouse, always of this century.
                self.year = Some(2000 + digits(rest, 2, 2)?);
            }
            'F' => self.all(&['Y', '-', 'm', '-', 'd'], rest)?,
            'R' => self.all(&['H', ':', 'i'], rest)?,
            'T' => self.all(&['H', ':', 'i', ':', 's'], rest)?,
            'r' => self.all(&['h', ':', 'i', ' ', 'p'], rest)?,
            _ => return None,
        }
        Some(())
    }

    fn all(&mut self, fields: &[char], rest: &mut &str) -> Option<()> {
        fields.iter().try_for_each(|field| match field {
            '/' | '-' | ':' | ' ' => literal(rest, *field),
            field => self.read(*field, rest),
        })
    }

    fn month(&mut self, month: i64) -> Option<()> {
        (self.names, self.month) = (Day::OfMonth, within(month, 1..=12)?);
        Some(())
    }

    fn day(&mut self, day: i64) -> Option<()> {
        (self.names, self.of_month) = (Day::OfMonth, within(day, 1..=31)?);
        Some(())
    }

    fn of_week(&mut self, set: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.names = Day::OfWeek;
        set(self)
    }

    fn hour(&mut self, hour: i64) -> Option<()> {
        (self.hour, self.is_half_day) = (within(hour, 0..=23)?, false);
        Some(())
    }

    fn half_day_hour(&mut self, hour: i64) -> Option<()> {
        (self.hour, self.is_half_day) = (within(hour, 1..=12)? % 12, true);
        Some(())
    }

    fn instant(&self, clock: &mut ZoneClock) -> Option<i64> {
        let default = if self.names == Day::None { YEAR_OF_TIME } else { YEAR_OF_DAY };
        let year = self.year.unwrap_or(default);
        let day = match self.names {
            Day::None => days_of(year, 1, 1),
            Day::OfMonth => {
                let day = within(self.of_month, 1..=days_of_month(year, self.month))?;
                days_of(year, self.month, day)
            }
            Day::OfYear => {
                let first = days_of(year, 1, 1);
                first + within(self.of_year, 1..=days_of(year + 1, 1, 1) - first)? - 1
            }
            Day::OfWeek => {
                // The first week has the fourth of January.
                let fourth = days_of(year, 1, 4);
                fourth - weekday(fourth) + (self.week - 1) * 7 + self.of_week
            }
        };
        let half = if self.is_half_day && self.is_afternoon { 12 } else { 0 };
        let time = (self.hour + half) * HOUR + self.minute * MINUTE + self.second * SECOND;
        let local = day * DAY + time;
        Some(match self.offset {
            Some(offset) => local - offset,
            None => clock.instant(local),
        })
    }
}

fn full_year(two_digits: i64) -> i64 {
    two_digits + if two_digits < LAST_CENTURY { 2000 } else { 1900 }
}

fn month_named_in_full(name: &str) -> Option<i64> {
    let month = month_named(name)?;
    super::format::month_name(month).eq_ignore_ascii_case(name).then_some(month)
}
