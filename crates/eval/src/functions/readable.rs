//! Numbers as people read them.

use hogql::types::Kind;

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::values::format::{self, push};
use crate::vector::column::check_string_bytes;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    const BINARY: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
    const DECIMAL: &[&str] = &["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    const QUANTITY: &[&str] = &[
        "",
        "thousand",
        "million",
        "billion",
        "trillion",
        "quadrillion",
        "quintillion",
        "sextillion",
        "septillion",
    ];
    Ok(Some(match site.name {
        "formatReadableSize" => scaled(site, 1024.0, BINARY)?,
        "formatReadableDecimalSize" => scaled(site, 1000.0, DECIMAL)?,
        "formatReadableQuantity" => scaled(site, 1000.0, QUANTITY)?,
        "formatReadableTimeDelta" => time_delta(site)?,
        "bar" => bar(site)?,
        _ => return Ok(None),
    }))
}

fn scaled(site: &mut CallSite, base: f64, units: &'static [&'static str]) -> Result<CompiledCall> {
    let span = site.span;
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        args.map_strings(span, |row, out| {
            let mut value = values.at(row);
            if !value.is_finite() {
                format::float(value, out);
            } else {
                let mut unit = 0;
                while unit + 1 < units.len() && value.abs() >= base {
                    value /= base;
                    unit += 1;
                }
                push(out, format_args!("{value:.2}"));
                if !units[unit].is_empty() {
                    push(out, format_args!(" {}", units[unit]));
                }
                return;
            }
            if !units[0].is_empty() {
                push(out, format_args!(" {}", units[0]));
            }
        })
    }))
}

/// The units of a time span, with their seconds: months have 30.5 days and years 365.
const SPANS: [(&str, f64); 9] = [
    ("year", 31_536_000.0),
    ("month", 2_635_200.0),
    ("day", 86_400.0),
    ("hour", 3_600.0),
    ("minute", 60.0),
    ("second", 1.0),
    ("millisecond", 1e-3),
    ("microsecond", 1e-6),
    ("nanosecond", 1e-9),
];

fn time_delta(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let at = |no: usize, fallback: &str| -> Result<usize> {
        let name = site.string(no).unwrap_or_else(|| fallback.to_owned());
        let position = SPANS.iter().position(|(unit, _)| name == format!("{unit}s"));
        position.ok_or_else(|| site.invalid("formatReadableTimeDelta takes a unit such as 'hours'"))
    };
    let greatest = at(1, "years")?;
    let least = at(2, if greatest > 5 { "nanoseconds" } else { "seconds" })?;
    if least < greatest {
        return Err(site.invalid("The least unit is longer than the greatest"));
    }
    site.args.truncate(1);
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        args.map_strings(span, |row, out| {
            let value = values.at(row);
            if !value.is_finite() {
                return format::float(value, out);
            }
            out.push_str(if value < 0.0 { "-" } else { "" });
            let (start, mut rest, mut any) = (out.len(), value.abs(), false);
            for (no, (unit, seconds)) in SPANS.iter().enumerate().take(least + 1).skip(greatest) {
                let count = (rest / seconds + 1e-9 * f64::from(*seconds < 1.0)).floor();
                if count < 1.0 && (any || no < least || *unit != "second") {
                    continue;
                }
                rest -= count * seconds;
                let comma = if any { ", " } else { "" };
                let plural = if count == 1.0 { "" } else { "s" };
                push(out, format_args!("{comma}{count} {unit}{plural}"));
                any = true;
            }
            // "and" stands before the last part.
            if let Some(last) = out[start..].rfind(", ") {
                out.replace_range(start + last..start + last + 2, " and ");
            }
        })
    }))
}

/// Characters of a bar.
const BAR_CHARS_MAX: f64 = 1_000.0;

/// A bar whose length shows a number between two bounds, in eighths of a character.
fn bar(site: &mut CallSite) -> Result<CompiledCall> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let span = site.span;
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let (values, lows) = (args.floats(0), args.floats(1));
        let (highs, widths) = (args.floats(2), args.floats(3));
        args.try_strings(span, |row, out| {
            let (low, high, width) = (lows.at(row), highs.at(row), widths.at(row));
            if !(1.0..=BAR_CHARS_MAX).contains(&width) {
                return Err(Error::invalid("The width of a bar is from 1 to 1000", span));
            }
            let value = values.at(row);
            let share = if value.is_nan() || value <= low {
                0.0
            } else if value >= high {
                1.0
            } else {
                (value - low) / (high - low)
            };
            let eighths = (share * width * 8.0) as usize;
            check_string_bytes(out, (eighths / 8 + 1) * "█".len(), span)?;
            (0..eighths / 8).for_each(|_| out.push('█'));
            out.push_str(EIGHTHS[eighths % 8]);
            Ok(true)
        })
    })
    .fallible())
}
