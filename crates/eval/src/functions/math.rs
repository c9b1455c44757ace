//! Mathematical functions of numbers.

use hogql::types::Kind;

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::vector::types::wrap;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let (span, kind) = (site.span, site.ty.kind.clone());
    if let Some(f) = of_one(site.name) {
        return of_floats(site, f).map(Some);
    }
    Ok(Some(match site.name {
        "atan2" => of_pairs(site, f64::atan2)?,
        "hypot" => of_pairs(site, f64::hypot)?,
        "intExp2" => to_ints(site, |value| {
            let exponent = value.floor() as i64;
            if exponent < 0 {
                0
            } else {
                let power = u32::try_from(exponent).ok().and_then(|by| 1u64.checked_shl(by));
                power.unwrap_or(u64::MAX) as i64
            }
        })?,
        "intExp10" => to_ints(site, |value| {
            let exponent = value.floor() as i64;
            if exponent < 0 {
                return 0;
            }
            u32::try_from(exponent).ok().and_then(|e| 10u64.checked_pow(e)).unwrap_or(u64::MAX)
                as i64
        })?,
        "factorial" => call(move |args| {
            let values = args.ints(0);
            args.try_ints(|row| match values.at(row) {
                // 21! needs more than 64 bits.
                21.. => Err(Error::invalid("factorial takes a number up to 20", span)),
                number => Ok(Some((2..=number.max(1)).product())),
            })
        })
        .fallible(),
        "width_bucket" => width_bucket(site)?,
        "roundToExp2" => match kind {
            Kind::Float => of_floats(site, |value| {
                if value == 0.0 || !value.is_finite() {
                    return value;
                }
                2f64.powi(value.abs().log2().floor() as i32).copysign(value)
            })?,
            kind => {
                site.cast(0, &kind)?;
                call(move |args| {
                    let values = args.ints(0);
                    Ok(args.map_ints(|row| {
                        let value = values.at(row);
                        if value <= 0 { 0 } else { wrap(&kind, 1i64 << value.ilog2()) }
                    }))
                })
            }
        },
        "roundDuration" => steps(
            site,
            &[
                1.0, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0,
                7200.0, 18000.0, 36000.0,
            ],
        )?,
        "roundAge" => to_ints(site, |age| match age {
            age if age < 1.0 => 0,
            age if age < 18.0 => 17,
            age if age < 25.0 => 18,
            age if age < 35.0 => 25,
            age if age < 45.0 => 35,
            age if age < 55.0 => 45,
            _ => 55,
        })?,
        "greatCircleDistance" | "greatCircleAngle" => great_circle(site)?,
        _ => return Ok(None),
    }))
}

fn of_one(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "exp2" => f64::exp2,
        "exp10" => |value| 10f64.powf(value),
        "cbrt" => f64::cbrt,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => f64::asinh,
        "acosh" => f64::acosh,
        "atanh" => f64::atanh,
        "log1p" => f64::ln_1p,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        _ => return None,
    })
}

fn of_floats(site: &mut CallSite, f: fn(f64) -> f64) -> Result<CompiledCall> {
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        Ok(args.map_floats(|row| f(values.at(row))))
    }))
}

fn of_pairs(site: &mut CallSite, f: fn(f64, f64) -> f64) -> Result<CompiledCall> {
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let (a, b) = (args.floats(0), args.floats(1));
        Ok(args.map_floats(|row| f(a.at(row), b.at(row))))
    }))
}

fn to_ints(site: &mut CallSite, f: fn(f64) -> i64) -> Result<CompiledCall> {
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        Ok(args.map_ints(|row| f(values.at(row))))
    }))
}

/// The greatest step that is not above the value; 0 below the first.
fn steps(site: &mut CallSite, steps: &'static [f64]) -> Result<CompiledCall> {
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        Ok(args.map_ints(|row| {
            let below = steps.iter().rev().find(|step| **step <= values.at(row));
            below.map_or(0, |step| *step as i64)
        }))
    }))
}

/// Which of `count` equal intervals between two bounds a number is in, from 1 on.
fn width_bucket(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let (values, lows) = (args.floats(0), args.floats(1));
        let (highs, counts) = (args.floats(2), args.floats(3));
        args.try_ints(|row| {
            let (value, low, high) = (values.at(row), lows.at(row), highs.at(row));
            let count = counts.at(row).trunc();
            let ordered = low.is_finite() && high.is_finite() && !value.is_nan();
            if !ordered || count < 1.0 {
                let message = "width_bucket needs finite bounds and at least one interval";
                return Err(Error::invalid(message, span));
            }
            if value < low || high <= low {
                return Ok(Some(0));
            }
            if value >= high {
                return Ok(Some((count as i64).saturating_add(1)));
            }
            let below = ((value - low) * count / (high - low)) as i64;
            Ok(Some(below.saturating_add(1)))
        })
    })
    .fallible())
}

/// The mean radius of the earth in meters, as ClickHouse has it.
const EARTH_METERS: f64 = 6_371_008.771_415_059;

/// Between two places, each longitude before latitude.
fn great_circle(site: &mut CallSite) -> Result<CompiledCall> {
    let meters = site.name == "greatCircleDistance";
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let degrees: Vec<_> = (0..4).map(|no| args.floats(no)).collect();
        Ok(args.map_floats(|row| {
            let [east_a, north_a, east_b, north_b] =
                std::array::from_fn(|no| degrees[no].at(row).to_radians());
            let half = |angle: f64| (angle / 2.0).sin().powi(2);
            let share =
                half(north_b - north_a) + north_a.cos() * north_b.cos() * half(east_b - east_a);
            let angle = 2.0 * share.sqrt().min(1.0).asin();
            if meters { angle * EARTH_METERS } else { angle.to_degrees() }
        }))
    }))
}
