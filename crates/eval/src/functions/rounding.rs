//! Rounding to digits, or to tens where they are negative.

use hogql::types::Kind;

use super::{Built, Site, call};
use crate::error::Result;
use crate::types::wrap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the nearest, of two the even one.
    Nearest,
    Down,
    Up,
    ToZero,
}

/// Digits beyond these change nothing.
const DIGITS_MAX: i64 = 32;

pub(super) fn build(site: &mut Site) -> Result<Built> {
    let way = match site.name {
        "floor" => Way::Down,
        "ceil" => Way::Up,
        "trunc" => Way::ToZero,
        _ => Way::Nearest,
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
                Ok(args.map_floats(|row| float(values.at(row), digits(row), way)))
            }
            Kind::Decimal(scale) => {
                let values = args.decimals(0);
                args.try_decimals(*scale, |row| {
                    let places = i32::from(*scale) - digits(row);
                    Ok(Some(integer(values.at(row), places, way)))
                })
            }
            kind => {
                let values = args.ints(0);
                Ok(args.map_ints(|row| {
                    let value = super::arithmetic::whole(kind, values.at(row));
                    wrap(kind, integer(value, -digits(row), way) as i64)
                }))
            }
        }
    }))
}

fn float(value: f64, digits: i32, way: Way) -> f64 {
    let round = |value: f64| match way {
        Way::Nearest => value.round_ties_even(),
        Way::Down => value.floor(),
        Way::Up => value.ceil(),
        Way::ToZero => value.trunc(),
    };
    if digits == 0 || !value.is_finite() {
        return round(value);
    }
    let scale = 10f64.powi(digits.abs());
    let rounded =
        if digits > 0 { round(value * scale) / scale } else { round(value / scale) * scale };
    // Too large to have that many digits.
    if rounded.is_finite() { rounded } else { value }
}

/// Without the last `places` of its digits.
fn integer(value: i128, places: i32, way: Way) -> i128 {
    if places <= 0 {
        return value;
    }
    let Some(unit) = 10i128.checked_pow(places as u32) else { return 0 };
    let (down, rest) = (value.div_euclid(unit) * unit, value.rem_euclid(unit));
    match way {
        _ if rest == 0 => value,
        Way::Down => down,
        Way::Up => down + unit,
        Way::ToZero if value < 0 => down + unit,
        Way::ToZero => down,
        Way::Nearest => match (rest * 2).cmp(&unit) {
            std::cmp::Ordering::Less => down,
            std::cmp::Ordering::Greater => down + unit,
            // Whole numbers are rounded away from zero.
            std::cmp::Ordering::Equal if value < 0 => down,
            std::cmp::Ordering::Equal => down + unit,
        },
    }
}
