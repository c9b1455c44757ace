//! Arithmetic. Integer overflow wraps to the width of the type, as in ClickHouse.

use hogql::types::Kind;

use super::{CallSite, CompiledCall, call, dates, rounding};
use crate::error::{Error, Result};
use crate::vector::types::wrap;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let kind = site.ty.kind.clone();
    let timely = |site: &CallSite| site.args.iter().any(|arg| arg.ty.kind.is_time());
    Ok(Some(match site.name {
        "plus" | "minus" if timely(site) => dates::shift_by_operator(site)?,
        "plus" => sum(site, &kind, i64::wrapping_add, |a, b| a + b, i128::checked_add)?,
        "minus" => sum(site, &kind, i64::wrapping_sub, |a, b| a - b, i128::checked_sub)?,
        "multiply" => multiply(site, &kind)?,
        "divide" => floats(site, |a, b| a / b)?,
        "intDiv" => int_div(site, &kind, true)?,
        "intDivOrZero" => int_div(site, &kind, false)?,
        "modulo" => modulo(site, &kind, Remainder::OfTruncation)?,
        "moduloOrZero" => modulo(site, &kind, Remainder::OrZero)?,
        "positiveModulo" => modulo(site, &kind, Remainder::Positive)?,
        "negate" => match kind {
            Kind::Float => float(site, |value| -value)?,
            Kind::Decimal(scale) => call(move |args| {
                let values = args.decimals(0);
                args.try_decimals(scale, |row| Ok(Some(-values.at(row))))
            }),
            kind => {
                site.cast(0, &kind)?;
                call(move |args| {
                    let values = args.ints(0);
                    Ok(args.map_ints(|row| wrap(&kind, values.at(row).wrapping_neg())))
                })
            }
        },
        "abs" => match kind {
            Kind::Float => float(site, f64::abs)?,
            Kind::Decimal(scale) => call(move |args| {
                let values = args.decimals(0);
                args.try_decimals(scale, |row| Ok(Some(values.at(row).abs())))
            }),
            _ => {
                let signed = matches!(site.kind(0), Kind::Int(_));
                call(move |args| {
                    let values = args.ints(0);
                    Ok(args.map_ints(|row| {
                        let value = values.at(row);
                        if signed { value.wrapping_abs() } else { value }
                    }))
                })
            }
        },
        "round" | "floor" | "ceil" | "trunc" => rounding::build(site)?,
        "sqrt" => float(site, f64::sqrt)?,
        "exp" => float(site, f64::exp)?,
        "log" => float(site, f64::ln)?,
        "log2" => float(site, f64::log2)?,
        "log10" => float(site, f64::log10)?,
        "pow" => floats(site, f64::powf)?,
        "max2" => floats(site, f64::max)?,
        "min2" => floats(site, f64::min)?,
        "sign" => {
            site.cast(0, &Kind::Float)?;
            call(|args| {
                let values = args.floats(0);
                Ok(args.map_ints(|row| {
                    let value = values.at(row);
                    i64::from(value > 0.0) - i64::from(value < 0.0)
                }))
            })
        }
        "gcd" => divisors(site, &kind, |a, b| Some(gcd(a, b)))?,
        "lcm" => divisors(site, &kind, |a, b| {
            if a == 0 || b == 0 {
                None
            } else {
                Some((a / gcd(a, b)).wrapping_mul(b).wrapping_abs())
            }
        })?,
        "pi" => constant(std::f64::consts::PI),
        "e" => constant(std::f64::consts::E),
        _ => return Ok(None),
    }))
}

fn constant(value: f64) -> CompiledCall {
    call(move |args| Ok(args.map_floats(|_| value)))
}

fn float(
    site: &mut CallSite,
    f: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Result<CompiledCall> {
    site.cast(0, &Kind::Float)?;
    Ok(call(move |args| {
        let values = args.floats(0);
        Ok(args.map_floats(|row| f(values.at(row))))
    }))
}

fn floats(
    site: &mut CallSite,
    f: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Result<CompiledCall> {
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let (a, b) = (args.floats(0), args.floats(1));
        Ok(args.map_floats(|row| f(a.at(row), b.at(row))))
    }))
}

fn too_large(span: hogql::Span) -> Error {
    Error::invalid("The result has too many digits for a decimal", span)
}

fn sum(
    site: &mut CallSite,
    kind: &Kind,
    ints: impl Fn(i64, i64) -> i64 + Send + Sync + 'static,
    of_floats: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    decimals: impl Fn(i128, i128) -> Option<i128> + Send + Sync + 'static,
) -> Result<CompiledCall> {
    let span = site.span;
    site.cast_all(kind)?;
    Ok(match kind.clone() {
        Kind::Float => floats(site, of_floats)?,
        Kind::Decimal(scale) => call(move |args| {
            let (a, b) = (args.decimals(0), args.decimals(1));
            args.try_decimals(scale, |row| {
                let sum = decimals(a.at(row), b.at(row)).and_then(crate::values::parse::in_bounds);
                sum.map(Some).ok_or_else(|| too_large(span))
            })
        })
        .fallible(),
        kind => call(move |args| {
            let (a, b) = (args.ints(0), args.ints(1));
            Ok(args.map_ints(|row| wrap(&kind, ints(a.at(row), b.at(row)))))
        }),
    })
}

fn multiply(site: &mut CallSite, kind: &Kind) -> Result<CompiledCall> {
    let span = site.span;
    site.cast_all(kind)?;
    Ok(match kind.clone() {
        Kind::Float => floats(site, |a, b| a * b)?,
        Kind::Decimal(scale) => call(move |args| {
            let (a, b) = (args.decimals(0), args.decimals(1));
            let unit = 10i128.pow(u32::from(scale));
            args.try_decimals(scale, |row| {
                let product = a.at(row).checked_mul(b.at(row)).map(|product| product / unit);
                product
                    .and_then(crate::values::parse::in_bounds)
                    .map(Some)
                    .ok_or_else(|| too_large(span))
            })
        })
        .fallible(),
        kind => call(move |args| {
            let (a, b) = (args.ints(0), args.ints(1));
            Ok(args.map_ints(|row| wrap(&kind, a.at(row).wrapping_mul(b.at(row)))))
        }),
    })
}

/// The numeric value of wide bits, signed or unsigned by its kind.
pub(super) fn numeric_value(kind: &Kind, bits: i64) -> i128 {
    if *kind == Kind::UInt(64) { i128::from(bits as u64) } else { i128::from(bits) }
}

fn by_zero(span: hogql::Span) -> Error {
    Error::invalid("Division by zero", span)
}

fn int_div(site: &mut CallSite, kind: &Kind, refuse: bool) -> Result<CompiledCall> {
    let (span, kind) = (site.span, kind.clone());
    let kinds = [site.kind(0).clone(), site.kind(1).clone()];
    if kinds.iter().all(Kind::is_integer) {
        return Ok(call(move |args| {
            let (a, b) = (args.ints(0), args.ints(1));
            args.try_ints(|row| {
                let (a, b) =
                    (numeric_value(&kinds[0], a.at(row)), numeric_value(&kinds[1], b.at(row)));
                match b {
                    0 if refuse => Err(by_zero(span)),
                    0 => Ok(Some(0)),
                    _ => Ok(Some(wrap(&kind, (a / b) as i64))),
                }
            })
        })
        .fallible_if(refuse));
    }
    site.cast_all(&Kind::Float)?;
    Ok(call(move |args| {
        let (a, b) = (args.floats(0), args.floats(1));
        args.try_ints(|row| {
            let quotient = a.at(row) / b.at(row);
            if quotient.is_finite() {
                return Ok(Some(wrap(&kind, quotient as i64)));
            }
            if refuse { Err(by_zero(span)) } else { Ok(Some(0)) }
        })
    })
    .fallible_if(refuse))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Remainder {
    OfTruncation,
    /// As `OfTruncation`, and 0 instead of an error.
    OrZero,
    Positive,
}

fn modulo(site: &mut CallSite, kind: &Kind, which: Remainder) -> Result<CompiledCall> {
    let span = site.span;
    let kinds = [site.kind(0).clone(), site.kind(1).clone()];
    Ok(match kind.clone() {
        Kind::Float if which == Remainder::Positive => floats(site, |a, b| {
            let rest = a % b;
            if rest < 0.0 { rest + b.abs() } else { rest }
        })?,
        Kind::Float => floats(site, |a, b| a % b)?,
        Kind::Decimal(scale) => {
            site.cast_all(kind)?;
            call(move |args| {
                let (a, b) = (args.decimals(0), args.decimals(1));
                args.try_decimals(scale, |row| match (b.at(row), which) {
                    (0, Remainder::OrZero) => Ok(Some(0)),
                    (0, _) => Err(by_zero(span)),
                    (b, Remainder::Positive) => Ok(Some(a.at(row).wrapping_rem_euclid(b))),
                    (b, _) => Ok(Some(a.at(row).wrapping_rem(b))),
                })
            })
            .fallible()
        }
        kind => call(move |args| {
            let (a, b) = (args.ints(0), args.ints(1));
            args.try_ints(|row| {
                let (a, b) =
                    (numeric_value(&kinds[0], a.at(row)), numeric_value(&kinds[1], b.at(row)));
                let rest = match (b, which) {
                    (0, Remainder::OrZero) => 0,
                    (0, _) => return Err(by_zero(span)),
                    (b, Remainder::Positive) => a.rem_euclid(b),
                    (b, _) => a % b,
                };
                Ok(Some(wrap(&kind, rest as i64)))
            })
        })
        .fallible_if(which != Remainder::OrZero),
    })
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn divisors(
    site: &mut CallSite,
    kind: &Kind,
    f: impl Fn(i128, i128) -> Option<i128> + Send + Sync + 'static,
) -> Result<CompiledCall> {
    let (span, name, kind) = (site.span, site.name, kind.clone());
    let kinds = [site.kind(0).clone(), site.kind(1).clone()];
    Ok(call(move |args| {
        let (a, b) = (args.ints(0), args.ints(1));
        args.try_ints(|row| {
            let (a, b) = (numeric_value(&kinds[0], a.at(row)), numeric_value(&kinds[1], b.at(row)));
            if name == "lcm" && (a == 0 || b == 0) {
                return Err(by_zero(span));
            }
            Ok(Some(wrap(&kind, f(a, b).unwrap_or_default() as i64)))
        })
    })
    .fallible_if(name == "lcm"))
}
