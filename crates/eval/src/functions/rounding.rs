//! Rounding to decimal digits; negative digits round to tens, hundreds and so on.

use hogql::types::Kind;

use super::{CallSite, CompiledCall, call};
use crate::error::Result;
use crate::vector::types::wrap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    /// To the nearest; ties to even for floats.
    Nearest,
    Down,
    Up,
    ToZero,
}

/// Larger counts of digits have no effect.
const DIGITS_MAX: i64 = 32;

pub(super) fn build(site: &mut CallSite) -> Result<CompiledCall> {
    let rounding = match site.name {
        "floor" => Rounding::Down,
        "ceil" => Rounding::Up,
        "trunc" => Rounding::ToZero,
        _ => Rounding::Nearest,
    };
    let has_digits = site.args.len() > 1;
    if has_digits {
        site.cast(1, &Kind::Int(64))?;
    }
    let kind = site.ty.kind.clone();
    Ok(call(move |args| {
        let digits = |row: usize| {
            let digits = if has_digits { args.ints(1).at(row) } else { 0 };
            digits.clamp(-DIGITS_MAX, DIGITS_MAX) as i32
        };
        match &kind {
            Kind::Float => {
                let values = args.floats(0);
                Ok(args.map_floats(|row| float(values.at(row), digits(row), rounding)))
            }
            Kind::Decimal(scale) => {
                let values = args.decimals(0);
                args.try_decimals(*scale, |row| {
                    let places = i32::from(*scale) - digits(row);
                    Ok(Some(integer(values.at(row), places, rounding)))
                })
            }
            kind => {
                let values = args.ints(0);
                Ok(args.map_ints(|row| {
                    let value = super::arithmetic::numeric_value(kind, values.at(row));
                    wrap(kind, integer(value, -digits(row), rounding) as i64)
                }))
            }
        }
    }))
}

fn float(value: f64, digits: i32, rounding: Rounding) -> f64 {
    let round = |value: f64| match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
        Rounding::ToZero => value.trunc(),
    };
    if digits == 0 || !value.is_finite() {
        return round(value);
    }
    let scale = 10f64.powi(digits.abs());
    let rounded =
        if digits > 0 { round(value * scale) / scale } else { round(value / scale) * scale };
    // The value is too large to have that many digits.
    if rounded.is_finite() { rounded } else { value }
}

/// Rounds away the last `places` digits.
fn integer(value: i128, places: i32, rounding: Rounding) -> i128 {
    if places <= 0 {
        return value;
    }
    let Some(unit) = 10i128.checked_pow(places as u32) else { return 0 };
    let (down, rest) = (value.div_euclid(unit) * unit, value.rem_euclid(unit));
    match rounding {
        _ if rest == 0 => value,
        Rounding::Down => down,
        Rounding::Up => down + unit,
        Rounding::ToZero if value < 0 => down + unit,
        Rounding::ToZero => down,
        Rounding::Nearest => match (rest * 2).cmp(&unit) {
            std::cmp::Ordering::Less => down,
            std::cmp::Ordering::Greater => down + unit,
            // Ties of integers and decimals round away from zero.
            std::cmp::Ordering::Equal if value < 0 => down,
            std::cmp::Ordering::Equal => down + unit,
        },
    }
}
