//! Formats instants and days as strings.

use std::fmt::Write;

use super::{DAY, HOUR, MINUTE, SECOND, ZoneClock, civil, days_of, iso_week, weekday};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(crate) fn month_name(month: i64) -> &'static str {
    MONTHS[(month - 1).rem_euclid(12) as usize]
}

/// The month (1 to 12) by its English name or an abbreviation of it.
pub(crate) fn month_named(name: &str) -> Option<i64> {
    let fits = |month: &str| {
        name.len() >= 3
            && month.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    MONTHS.iter().position(|month| fits(month)).map(|at| at as i64 + 1)
}

/// The weekday (Monday is 1) by its English name or an abbreviation of it.
pub(crate) fn weekday_named(name: &str) -> Option<i64> {
    let fits = |day: &str| {
        name.len() >= 3
            && day.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    WEEKDAYS.iter().position(|day| fits(day)).map(|at| at as i64 + 1)
}

/// Whether this is a weekday's whole English name.
pub(crate) fn is_weekday_named(name: &str) -> bool {
    WEEKDAYS.iter().any(|day| day.eq_ignore_ascii_case(name))
}

/// `2024-03-01`
pub(crate) fn day(day: i64, out: &mut String) {
    let (year, month, of_month) = civil(day);
    push(out, format_args!("{year:04}-{month:02}-{of_month:02}"));
}

/// `2024-03-01 10:00:00`, with `precision` digits of the fraction.
pub(crate) fn date_time(local: i64, precision: u8, out: &mut String) {
    day(local.div_euclid(DAY), out);
    out.push(' ');
    time(local.rem_euclid(DAY), out);
    if precision > 0 {
        let micros = local.rem_euclid(SECOND);
        let digits = format!("{micros:06}000");
        out.push('.');
        out.push_str(&digits[..usize::from(precision.min(9))]);
    }
}

fn time(within: i64, out: &mut String) {
    let (hour, minute, second) = (within / HOUR, within / MINUTE % 60, within / SECOND % 60);
    push(out, format_args!("{hour:02}:{minute:02}:{second:02}"));
}

/// `2024-03-01T10:00:00Z`, with a fraction unless it is zero.
pub(crate) fn iso(instant: i64, offset: i64, out: &mut String) {
    let local = instant.saturating_add(offset);
    day(local.div_euclid(DAY), out);
    out.push('T');
    time(local.rem_euclid(DAY), out);
    let micros = local.rem_euclid(SECOND);
    if micros != 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    match offset {
        0 => out.push('Z'),
        _ => {
            let sign = if offset < 0 { '-' } else { '+' };
            let minutes = offset.abs() / MINUTE;
            push(out, format_args!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
    }
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a string takes everything");
}

/// A parsed piece of a `formatDateTime` format.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Literal(String),
    Field(char),
}

/// Parses MySQL's format specifiers, as ClickHouse does. Returns the first unknown one as error.
pub(crate) fn pieces(format: &str) -> Result<Vec<Piece>, char> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut chars = format.chars();
    while let Some(one) = chars.next() {
        if one != '%' {
            literal.push(one);
            continue;
        }
        match chars.next() {
            Some('%') => literal.push('%'),
            Some('n') => literal.push('\n'),
            Some('t') => literal.push('\t'),
            Some(field) if "aAbcCdDeEfFgGhHiIjklmMpQrRsSTuVwWyYz".contains(field) => {
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Field(field));
            }
            other => return Err(other.unwrap_or('%')),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

pub(crate) fn formatted(
    pieces: &[Piece],
    instant: i64,
    precision: u8,
    clock: &mut ZoneClock,
    out: &mut String,
) {
    let offset = clock.offset(instant);
    let local = instant.saturating_add(offset);
    let (days, within) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, of_month) = civil(days);
    let (hour, minute, second) = (within / HOUR, within / MINUTE % 60, within / SECOND % 60);
    let half = if hour < 12 { "AM" } else { "PM" };
    let twelve = (hour + 11) % 12 + 1;
    let day_name = WEEKDAYS[(weekday(days) - 1) as usize];
    for piece in pieces {
        let field = match piece {
            Piece::Literal(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Field(field) => *field,
        };
        match field {
            'a' => out.push_str(&day_name[..3]),
            'W' | 'A' => out.push_str(day_name),
            'b' => out.push_str(&month_name(month)[..3]),
            'M' => out.push_str(month_name(month)),
            'c' | 'm' => push(out, format_args!("{month:02}")),
            'C' => push(out, format_args!("{:02}", year / 100)),
            'd' => push(out, format_args!("{of_month:02}")),
            'D' => push(out, format_args!("{month:02}/{of_month:02}/{:02}", year.rem_euclid(100))),
            'e' => push(out, format_args!("{of_month}")),
            'f' => {
                let digits = format!("{:06}", within % SECOND);
                let shown = if precision == 0 { 6 } else { usize::from(precision.min(6)) };
                out.push_str(&digits[..shown]);
            }
            'F' => day(days, out),
            'g' => push(out, format_args!("{:02}", iso_week(days).0.rem_euclid(100))),
            'G' => push(out, format_args!("{:04}", iso_week(days).0)),
            'h' | 'I' | 'l' => push(out, format_args!("{twelve:02}")),
            'H' | 'k' => push(out, format_args!("{hour:02}")),
            'i' => push(out, format_args!("{minute:02}")),
            'j' => push(out, format_args!("{:03}", days - days_of(year, 1, 1) + 1)),
            'p' => out.push_str(half),
            'Q' => push(out, format_args!("{}", (month - 1) / 3 + 1)),
            'r' => push(out, format_args!("{twelve:02}:{minute:02} {half}")),
            'R' => push(out, format_args!("{hour:02}:{minute:02}")),
            's' | 'S' => push(out, format_args!("{second:02}")),
            'T' => time(within, out),
            'u' => push(out, format_args!("{}", weekday(days))),
            'V' => push(out, format_args!("{:02}", iso_week(days).1)),
            'w' => push(out, format_args!("{}", weekday(days) % 7)),
            'y' => push(out, format_args!("{:02}", year.rem_euclid(100))),
            'Y' => push(out, format_args!("{year:04}")),
            'z' => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.abs() / MINUTE;
                push(out, format_args!("{sign}{:02}{:02}", minutes / 60, minutes % 60));
            }
            other => out.push(other),
        }
    }
}
